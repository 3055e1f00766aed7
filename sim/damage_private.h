/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_DAMAGE_PRIVATE_H
#define LL_SIM_DAMAGE_PRIVATE_H
/*
 * Internal interface of silent damage. damage.c does one damage after the other and judges the
 * results; damage_kinds.c generates the damages; damage_place.c decides which bytes mean something.
 */
#include "sim/sim_private.h"

#include <lladd/inspect.h>

/* A page of the page file, before the damage. */
struct ll_sim_page_facts {
    uint64_t lsn, base;
    uint8_t use; /* enum lladd_page_use */
    bool zero;
    bool bad;     /* damaged already, e.g. torn */
    bool bulk;    /* written in bulk, and no record about it since */
    bool passing; /* free after recovery of the database: its transaction was a loser */
};

/* A record of the log. */
struct ll_sim_record_facts {
    uint64_t lsn, end, page;
    bool barrier;      /* announces a bulk write of pages */
    bool decides;      /* commits, prepares or ends a transaction */
    uint64_t states;   /* of a seal record: everything below this LSN was durable */
    uint64_t names[4]; /* LSNs of earlier records that it refers to; 0: none */
};

/* The state of a database's files before the damage. */
struct ll_sim_situation {
    const char *what; /* "closed", "killed", "without power" */
    uint32_t calls;   /* number of calls of the workload's trace that led to it */
    bool power;       /* power failed: what was not durable is lost */
    bool clean;       /* the database was closed */
    struct ll_sim_image *image;
    struct ll_sim_claim claim;
    struct lladd_inspect_info info;
    uint64_t damage, repair;
    struct ll_sim_page_facts *page;
    uint64_t n_pages;
    struct ll_sim_record_facts *record; /* in LSN order */
    uint32_t n_records, records_capacity;
    bool begins_inside; /* the log may begin inside a record: its first part was truncated */
};

enum { LL_SIM_REGIONS = 64 };
struct ll_sim_region {
    uint32_t name;
    uint64_t off, len;
};

/* What the damaged bytes meant. */
struct ll_sim_meaning {
    bool differs;     /* some byte differs */
    bool solid;       /* the damage must be noticed */
    bool zeros;       /* all damaged bytes are now zeros, as in a page that was never used */
    bool bulk;        /* includes a page written in bulk, with no record about it since */
    bool one_page;    /* all damaged bytes belong to one page of the page file */
    uint64_t page;    /* that page, or the last one of several; UINT64_MAX: none */
    unsigned reasons; /* 1u << enum lladd_sim_reason: why some damaged bytes need not be noticed */
    uint64_t log_first, log_first_end, log_end; /* damaged records; UINT64_MAX: none */
    uint64_t tail;     /* log_first, unless a watermark that is left says that it was durable */
    uint64_t page_lsn; /* highest page LSN of the pages that differ */
};

struct ll_sim_damaging {
    struct lladd_sim *sim;
    struct lladd_sim *other; /* another database of the same subject */
    struct lladd_sim_damage_report *report;
    struct ll_sim_situation now;
    uint32_t number;                         /* of the situation */
    bool counting;                           /* count the damages without doing them */
    uint64_t count[LLADD_SIM_DAMAGE_KINDS];  /* number of possible damages */
    uint64_t stride[LLADD_SIM_DAMAGE_KINDS]; /* try every stride-th damage */
    uint64_t at[LLADD_SIM_DAMAGE_KINDS];     /* number of the next damage */
    /* For a replay: try this one only. */
    bool one;
    uint32_t one_situation, one_kind;
    uint64_t one_at;
    /* The current damage. */
    enum lladd_sim_damage_kind kind;
    struct ll_sim_image *image;
    struct ll_sim_region region[LL_SIM_REGIONS];
    uint32_t n_regions;
    /* For a read that goes wrong: */
    uint32_t read_name;
    uint64_t read_off, read_from;
    unsigned char read_bit; /* if not 0: flip this bit of the byte at read_off */
    bool misread;
    char what[200]; /* description of the damage */
};

/* damage.c */
/* Must the next damage of this kind be done? If so, `image` is a fresh copy of the files. */
bool ll_sim_damage_next(struct ll_sim_damaging *, enum lladd_sim_damage_kind, int *rc);
int ll_sim_damage_put(struct ll_sim_damaging *, uint32_t name, uint64_t off, const void *bytes,
                      size_t len);
int ll_sim_damage_size(struct ll_sim_damaging *, uint32_t name, uint64_t size);
int ll_sim_damage_gone(struct ll_sim_damaging *, uint32_t name);
/* Records that these bytes of the file have changed. */
void ll_sim_damage_region(struct ll_sim_damaging *, uint32_t name, uint64_t off, uint64_t len);
/* Judges the damage after it was done. The format describes the damage. */
int ll_sim_damage_try(struct ll_sim_damaging *, const char *fmt, ...) LLADD_PRINTF(2, 3);
/* The files after the first `calls` calls of the workload, without call number `skip` (from 0;
 * UINT32_MAX: none is left out). */
int ll_sim_damage_image(struct ll_sim_damaging *, struct ll_sim_arena *, uint32_t calls,
                        uint32_t skip, bool power, struct ll_sim_image *out);

/* damage_kinds.c */
int ll_sim_damage_all(struct ll_sim_damaging *);

/* damage_place.c */
/* Reads what the undamaged files hold. */
int ll_sim_damage_learn(struct ll_sim_damaging *);
/* Reads which pages are still in use after recovery of the undamaged files. */
int ll_sim_damage_learn_after(struct ll_sim_damaging *, const struct ll_sim_image *);
/* Do the contents of this page mean nothing, because the page is free, damaged already, or freed by
 * recovery? */
bool ll_sim_damage_nobodys(const struct ll_sim_situation *, uint64_t page);
void ll_sim_damage_meaning(struct ll_sim_damaging *, struct ll_sim_meaning *);
/* Returns the number of decisions in records that end after the LSN. */
uint32_t ll_sim_damage_decisions_from(const struct ll_sim_situation *, uint64_t lsn);
/* Returns the highest page LSN in the page file. */
uint64_t ll_sim_damage_newest(const struct ll_sim_damaging *, const struct ll_sim_image *);

#endif
