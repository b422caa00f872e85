// The switch on aarch64: the scheme of switch_x86_64.h, which explains it, with sp, pc and x29.
#pragma once

namespace magpie::rt {

struct thread_state;

struct context {
  void* stack_pointer;    // +0
  void* program_counter;  // +8
  void* frame_pointer;    // +16
};

// With SVE the vector registers are longer than v0 to v31 name, and there are predicates.
#if defined(__ARM_FEATURE_SVE)
#define MAGPIE_VECTOR_REGISTERS                                                                  \
  "z0", "z1", "z2", "z3", "z4", "z5", "z6", "z7", "z8", "z9", "z10", "z11", "z12", "z13", "z14", \
      "z15", "z16", "z17", "z18", "z19", "z20", "z21", "z22", "z23", "z24", "z25", "z26", "z27", \
      "z28", "z29", "z30", "z31", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9",    \
      "p10", "p11", "p12", "p13", "p14", "p15"
#else
#define MAGPIE_VECTOR_REGISTERS                                                                  \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
      "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
      "v28", "v29", "v30", "v31"
#endif

// Stores where `from` stands and goes on at `to`. Comes back when somebody switches to `from`,
// with what that somebody gave as `thread`. Arriving code finds `to` in x1 and `thread` in x0:
// entry_aarch64.S relies on it.
[[gnu::always_inline]] inline thread_state* switch_context(context* from, context* to,
                                                           thread_state* thread) {
  register thread_state* x0 asm("x0") = thread;
  register context* x1 asm("x1") = to;
  register context* x2 asm("x2") = from;
  asm volatile(
      "adr x9, 1f\n\t"
      "mov x10, sp\n\t"
      "stp x10, x9, [x2]\n\t"
      "str x29, [x2, #16]\n\t"
      "ldp x10, x9, [x1]\n\t"
      "ldr x29, [x1, #16]\n\t"
      "mov sp, x10\n\t"
      "br x9\n"
      "1:\n\t"
      "hint #36"  // bti j: a landing pad where branch targets are checked, nothing elsewhere
      : "+r"(x0), "+r"(x1), "+r"(x2)
      :
      : "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
        "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30",
        MAGPIE_VECTOR_REGISTERS, "cc", "memory");
  return x0;
}

#undef MAGPIE_VECTOR_REGISTERS

}  // namespace magpie::rt
