/* Large pages for memory that is read here and there: a processor remembers where some thousand pages are, and has to
 * look up the others, in a virtual machine twice. */

enum { LARGE_PAGE = 2 << 20 };

/* Has the system back memory that was not written yet by large pages, as far as it can and may. */
static void wish_large_pages(void *memory, size_t size) {
#ifdef MADV_HUGEPAGE
    uintptr_t begin = ((uintptr_t)memory + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)memory + size) & ~(uintptr_t)(LARGE_PAGE - 1);
    if (end > begin) madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* or it does without */
#endif
}
