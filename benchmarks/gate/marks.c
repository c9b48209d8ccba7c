/* What a Python program under callgrind says to it: count from here, stop, write down. */
#include <valgrind/callgrind.h>

void marks_start(void) { CALLGRIND_START_INSTRUMENTATION; }

void marks_begin(void) {
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
}

void marks_end(const char* name) {
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(name);
}
