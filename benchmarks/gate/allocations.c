/* Preloaded: counts the allocations of a process. With PYTHONMALLOC=malloc that is
   every object that is not on a free list, every array and every tensor. */
#include <stddef.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static long made;

long allocations_made(void) { return __atomic_load_n(&made, __ATOMIC_RELAXED); }

static void count(void) { __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED); }

void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}

void* calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}

void* realloc(void* old, size_t size) {
  count();
  return __libc_realloc(old, size);
}

void* memalign(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** out, size_t alignment, size_t size) {
  void* made_here = memalign(alignment, size);
  if (!made_here) return 12; /* ENOMEM */
  *out = made_here;
  return 0;
}
