// What this processor can do and the operating system lets it do.
//
// __builtin_cpu_supports is not used: with some toolchains that wheels are built
// with (zig) it is always false, without a word, and what depends on it is slow.
#pragma once

namespace zephon {

// AVX-512 with F and DQ, and BMI: what blend_in_stretches is compiled for. Asked
// once; false on other processors than x86-64.
[[nodiscard]] bool has_avx512() noexcept;

}  // namespace zephon
