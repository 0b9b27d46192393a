/*
 * A machine's whole program for the profiler's tests: known numbers of instructions, loads and stores between marks,
 * without a kernel. QEMU starts it by its PVH note in 32-bit mode; it goes to 64-bit mode and to the kernel's half of
 * the address space. `iopj` expects the counts by the names of the global labels.
 */
.set HIGH, 0xffffffff80000000
.set APIC, 0xfee00000
.set TRAMPOLINE, 0x8000

.macro mark code
    .byte 0x0f, 0x1f, 0x84, 0x00, \code, 0x4f, 0x50, 0x4a
.endm
.macro announce place
    .set bit, 31
    .rept 32
    mark (((\place) >> bit) & 1)
    .set bit, bit - 1
    .endr
.endm

.section .note.pvh, "a", @note
    .long 4, 4, 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .long start32 - HIGH

.section .text, "ax"
.code32
.globl start32
start32:
    movl $(boot_stack_end - HIGH), %esp
    call paging32
    ljmp $0x08, $(start64 - HIGH)

/* Page tables: the first GiB, and the GiB that holds the APIC, at their own addresses and from HIGH on. */
paging32:
    movl $(pdpt - HIGH + 3), pml4 - HIGH
    movl $(pdpt - HIGH + 3), pml4 - HIGH + 511 * 8
    movl $(low_pages - HIGH + 3), pdpt - HIGH
    movl $(low_pages - HIGH + 3), pdpt - HIGH + 510 * 8
    movl $(apic_pages - HIGH + 3), pdpt - HIGH + 3 * 8
    movl $0x83, %eax
    xorl %ecx, %ecx
1:  movl %eax, low_pages - HIGH(, %ecx, 8)
    addl $0x200000, %eax
    incl %ecx
    cmpl $512, %ecx
    jne 1b
    movl $(APIC + 0x93), apic_pages - HIGH + ((APIC >> 21) & 511) * 8
    /* falls into */
enable32:
    movl $(pml4 - HIGH), %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x20, %eax /* PAE */
    movl %eax, %cr4
    movl $0xc0000080, %ecx /* EFER */
    rdmsr
    orl $0x100, %eax /* LME */
    wrmsr
    movl %cr0, %eax
    orl $0x80000000, %eax
    movl %eax, %cr0
    lgdt gdt_pointer - HIGH
    ret

.code64
start64:
    movabsq $high64, %rax
    jmp *%rax
high64:
    movq $boot_stack_end, %rsp
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    /* interrupt gates for a division by zero and for vector 32 */
    movq $divide_error, %rax
    leaq idt(%rip), %rdi
    call gate
    movq $interrupt, %rax
    leaq idt + 32 * 16(%rip), %rdi
    call gate
    lidt idt_pointer(%rip)
    movb $0xff, %al /* no interrupt of a device: the timer's would come at any time */
    outb %al, $0x21
    outb %al, $0xa1
    movl $APIC, %r15d
    movl $0x1ff, 0xf0(%r15) /* software enable */
    call case_loop
    call case_user
    call case_repeated
    call case_fault
    call case_interrupts
    call case_abandoned
    call case_two_processors
    movw $0xf4, %dx /* isa-debug-exit */
    xorl %eax, %eax
    outb %al, %dx
1:  hlt
    jmp 1b

gate:
    movw %ax, (%rdi)
    movw $0x08, 2(%rdi)
    movw $0x8e00, 4(%rdi)
    shrq $16, %rax
    movw %ax, 6(%rdi)
    shrq $16, %rax
    movl %eax, 8(%rdi)
    ret

/* Place 1: 100,000 times four instructions, one load, one store. */
.globl case_loop
case_loop:
    announce 1
    movl $100000, %ecx
    mark 2
.globl body_loop
body_loop:
    movq data(%rip), %rax
    movq %rax, data + 8(%rip)
    decl %ecx
    jnz body_loop
.globl body_loop_end
body_loop_end:
    mark 3
    ret

/* Place 2: the same below the kernel's half; 3 * 1000 instructions, 2000 loads (one of a locked instruction), 1000
 * stores, then 500 iterations. */
case_user:
    announce 2
    movl $1000, %ecx
    movq $1f - HIGH, %rax
    jmp *%rax
1:  mark 2
2:  lock incl data - HIGH
    cmpl $0, data - HIGH + 8
    loop 2b
    movl $500, %ecx
    movl $(data - HIGH), %edi
    rep stosb
    mark 3
    ret

/* Place 3: 1000 iterations of each kind, and none. */
case_repeated:
    announce 3
    cld
    leaq data(%rip), %rsi
    leaq data + 4096(%rip), %rdi
    movl $1000, %ecx
    mark 2
.globl repeated_movs
repeated_movs:
    rep movsb
.globl repeated_stos
repeated_stos:
    movl $1000, %ecx
    leaq data(%rip), %rdi
    rep stosq
.globl repeated_none
repeated_none:
    rep stosq
.globl repeated_locked
repeated_locked:
    lock incq data(%rip)
    xchgq %rax, data(%rip)
    xchgq %rax, %rbx
.globl repeated_end
repeated_end:
    mark 3
    ret

/* Place 4: 1000 divisions by zero in the middle of a block; the handler steps over them. */
case_fault:
    announce 4
    movl $1000, %esi
    xorl %ebx, %ebx
    mark 2
.globl body_fault
body_fault:
    movq data(%rip), %rax
.globl body_fault_division
body_fault_division:
    divl %ebx
.globl body_fault_rest
body_fault_rest:
    movq data(%rip), %rax
    movq %rax, data + 8(%rip)
    decl %esi
    jnz body_fault
.globl body_fault_end
body_fault_end:
    mark 3
    ret
.globl divide_error
divide_error:
    addq $2, (%rsp)
    iretq
.globl divide_error_end
divide_error_end:

/* Place 5: 1000 interrupts that the processor sends to itself, each in the middle of a block. */
case_interrupts:
    announce 5
    movl $1000, %esi
    sti
    mark 2
.globl body_interrupts
body_interrupts:
    call send_interrupt
1:  cmpl $0, seen(%rip)
    je 1b
.globl body_interrupts_rest
body_interrupts_rest:
    movl $0, seen(%rip)
    decl %esi
    jnz body_interrupts
.globl body_interrupts_end
body_interrupts_end:
    mark 3
    cli
    ret
.globl send_interrupt
send_interrupt:
    movl $0x44020, 0x300(%r15) /* to self, vector 32 */
    movq data(%rip), %rax
    movq %rax, data + 8(%rip)
    ret
.globl interrupt
interrupt:
    movl $1, seen(%rip)
    movl $0, 0xb0(%r15) /* end of interrupt */
    iretq
.globl interrupt_end
interrupt_end:

/* Place 6 begins and is never ended. */
case_abandoned:
    announce 6
    mark 2
    nop
    ret

/* Place 7: two processors, each with its own function and window. */
case_two_processors:
    announce 7
    leaq trampoline(%rip), %rsi
    movl $TRAMPOLINE, %edi
    movl $(trampoline_end - trampoline), %ecx
    rep movsb
    mark 2
    movl $0, 0x310(%r15)
    movl $0xc4500, 0x300(%r15) /* INIT to all others */
    movl $10000, %ecx
1:  pause
    loop 1b
    movl $(0xc4600 | TRAMPOLINE >> 12), 0x300(%r15) /* start-up */
2:  pause
    cmpl $0, second_is_up(%rip)
    je 2b
    movl $200000, %ecx
.globl body_first
body_first:
    incq shared(%rip)
    decl %ecx
    jnz body_first
.globl body_first_end
body_first_end:
    mark 3
3:  pause
    cmpl $0, second_is_done(%rip)
    je 3b
    ret

second64:
    movabsq $second_high, %rax
    jmp *%rax
second_high:
    mark 2
    movl $1, second_is_up(%rip)
    movl $300000, %ecx
.globl body_second
body_second:
    incq shared(%rip)
    decl %ecx
    jnz body_second
.globl body_second_end
body_second_end:
    mark 3
    movl $1, second_is_done(%rip)
1:  hlt
    jmp 1b

.code16
trampoline:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl TRAMPOLINE + trampoline_gdt - trampoline
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x18, $(second32 - HIGH)
trampoline_gdt:
    .word gdt_end - gdt - 1
    .long gdt - HIGH
trampoline_end:
.code32
second32:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %ss
    movl $(second_stack_end - HIGH), %esp
    call enable32
    ljmp $0x08, $(second64 - HIGH)

.section .data, "aw"
.balign 16
gdt:
    .quad 0
    .quad 0x00af9a000000ffff /* 0x08: 64-bit code */
    .quad 0x00cf92000000ffff /* 0x10: data */
    .quad 0x00cf9a000000ffff /* 0x18: 32-bit code */
gdt_end:
gdt_pointer:
    .word gdt_end - gdt - 1
    .quad gdt - HIGH
idt_pointer:
    .word 33 * 16 - 1
    .quad idt
seen: .long 0
second_is_up: .long 0
second_is_done: .long 0
shared: .quad 0

.section .bss, "aw", @nobits
.balign 4096
pml4: .skip 4096
pdpt: .skip 4096
low_pages: .skip 4096
apic_pages: .skip 4096
idt: .skip 4096
data: .skip 16384
boot_stack: .skip 4096
boot_stack_end:
second_stack: .skip 4096
second_stack_end:
