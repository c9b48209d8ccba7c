/* What the machine's memory allows: the bytes of a batch, written by plain loops that have
   nothing to decide. Compiled with -O3 when the benchmarks run. */
#include <stdint.h>
#include <string.h>

#define LOOPS(NAME, TOKEN)                                                                     \
  /* ids, labels, positions, document ids, padding mask and cumulative lengths of rows that    \
     each are one document; tokens in file order. */                                           \
  void full_##NAME(const TOKEN* tokens, int64_t rows, int64_t width, int64_t* ids,             \
                   int64_t* labels, int64_t* positions, int64_t* documents, uint8_t* padding,  \
                   int32_t* cumulative) {                                                      \
    for (int64_t r = 0; r < rows; ++r) {                                                       \
      const TOKEN* from = tokens + r * (width + 1);                                            \
      int64_t *a = ids + r * width, *b = labels + r * width;                                   \
      int64_t *c = positions + r * width, *d = documents + r * width;                          \
      uint8_t* e = padding + r * width;                                                        \
      for (int64_t i = 0; i < width; ++i) {                                                    \
        a[i] = from[i];                                                                        \
        b[i] = from[i + 1];                                                                    \
        c[i] = i;                                                                              \
        d[i] = 1;                                                                              \
        e[i] = 0;                                                                              \
      }                                                                                        \
      cumulative[r + 1] = (int32_t)((r + 1) * width);                                          \
    }                                                                                          \
  }                                                                                            \
  void pair_##NAME(const TOKEN* tokens, int64_t rows, int64_t width, int64_t* ids,             \
                   int64_t* labels) {                                                          \
    for (int64_t r = 0; r < rows; ++r) {                                                       \
      const TOKEN* from = tokens + r * (width + 1);                                            \
      int64_t *a = ids + r * width, *b = labels + r * width;                                   \
      for (int64_t i = 0; i < width; ++i) {                                                    \
        a[i] = from[i];                                                                        \
        b[i] = from[i + 1];                                                                    \
      }                                                                                        \
    }                                                                                          \
  }

LOOPS(uint16, uint16_t)
LOOPS(int32, int32_t)
