// Where a fresh fiber begins and a finished one ends; see entry_x86_64.S.
//
// In, from switch_context():     x1   the fiber (its context is its first member)
//                                x0   the thread's state
//                                x29  the fiber's entry function, put there by prepare()
//                                sp   the top of its stack, 16-byte aligned
// Out, to the next context:      x1   that context        x0   the thread's state

        .text
        .globl  magpie_fiber_entry
        .hidden magpie_fiber_entry
        .type   magpie_fiber_entry, %function
magpie_fiber_entry:
        .cfi_startproc
        .cfi_undefined x30              // unwinders: there is no caller
        hint    #38                     // bti jc
        mov     x2, x29
        mov     x9, x1
        mov     x1, x0
        mov     x0, x9
        mov     x29, xzr
        mov     x30, xzr
        bl      magpie_fiber_main       // (fiber, thread, entry) -> x0: context, x1: thread
        mov     x9, x0
        mov     x0, x1
        mov     x1, x9
        ldp     x10, x9, [x1]
        ldr     x29, [x1, #16]
        mov     sp, x10
        br      x9
        .cfi_endproc
        .size   magpie_fiber_entry, . - magpie_fiber_entry

        .section .note.GNU-stack, "", %progbits
