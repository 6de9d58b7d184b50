/* cpu_model.c — the features of this CPU, as the resolvers of SIMD_CLONES (base/simd.h) read them.
 *
 * The compiler calls __cpu_indicator_init and reads __cpu_model in the resolvers that it makes. libgcc and compiler-rt
 * define both; the runtime library of zig, which compiles the portable wheels, does not (CPU_MODEL, meson.build). The
 * only feature that can be set is AVX2: SIMD_CLONES and half_kernels.c ask for no other. */
#if defined(CPU_MODEL) && defined(__x86_64__)
#include <cpuid.h>

enum { FEATURE_AVX2 = 10, STATE_VECTORS = 6 };

struct processor_model {
    unsigned vendor, type, subtype, features;
} __cpu_model __attribute__((visibility("hidden")));

/* Resolvers run before the relocation of other symbols, so this function calls none. */
int __cpu_indicator_init(void) {
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0 || (c & bit_F16C) == 0) return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if ((saved & STATE_VECTORS) != STATE_VECTORS || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if ((b & bit_AVX2) != 0) __cpu_model.features = 1U << FEATURE_AVX2;
    return 0;
}
#endif
