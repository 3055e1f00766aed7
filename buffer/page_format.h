/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BUFFER_PAGE_FORMAT_H
#define LL_BUFFER_PAGE_FORMAT_H
/* The header of every page (docs/disk-format.md):
 *    0 u32  checksum: CRC-32C of the salt (u32), the page number (u64), and the page from byte 4 on
 *    4 u16  page type: its catalogue number; 0: never formatted
 *    6 u16  flags: 0
 *    8 u64  page LSN
 *   16 u64  baseLSN: the LSN of the page's newest full image or format record (BUF-5); 0: none
 *   24 u64  page number
 * A page of zeros was never formatted. */
#include <lladd/bytes.h>

static inline uint32_t ll_page_checksum(const void *p)
{
    return lladd_get32(p);
}
static inline uint16_t ll_page_type(const void *p)
{
    return lladd_get16((const unsigned char *)p + 4);
}
static inline lladd_lsn ll_page_lsn(const void *p)
{
    return lladd_lsn_of(lladd_get64((const unsigned char *)p + 8));
}
static inline lladd_lsn ll_page_base(const void *p)
{
    return lladd_lsn_of(lladd_get64((const unsigned char *)p + 16));
}
static inline uint64_t ll_page_number(const void *p)
{
    return lladd_get64((const unsigned char *)p + 24);
}
static inline void ll_page_set_type(void *p, uint16_t type)
{
    lladd_put16((unsigned char *)p + 4, type);
}
static inline void ll_page_set_lsn(void *p, lladd_lsn lsn)
{
    lladd_put64((unsigned char *)p + 8, lsn.v);
}
static inline void ll_page_set_base(void *p, lladd_lsn lsn)
{
    lladd_put64((unsigned char *)p + 16, lsn.v);
}
static inline void ll_page_set_number(void *p, uint64_t n)
{
    lladd_put64((unsigned char *)p + 24, n);
}

#define LL_PAGE_SIZE_MIN 4096u
#define LL_PAGE_SIZE_MAX 65536u

#endif
