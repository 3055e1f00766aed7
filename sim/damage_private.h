/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_DAMAGE_PRIVATE_H
#define LL_SIM_DAMAGE_PRIVATE_H
/*
 * Silent damage, the inside. damage.c does one damage after the other and looks at what comes of
 * it; damage_kinds.c makes them; damage_place.c knows which bytes mean something.
 */
#include "sim/sim_private.h"

#include <lladd/inspect.h>

/* A page of the page file before the damage. */
struct ll_sim_page_facts {
    uint64_t lsn, base;
    uint8_t use; /* enum lladd_page_use */
    bool zero;
    bool bad;     /* is damaged already, as a torn one is */
    bool bulk;    /* was written in bulk, and no record has changed it since */
    bool passing; /* nobody's when the database was recovered: whose transaction was not over */
};

/* A record of the log. */
struct ll_sim_record_facts {
    uint64_t lsn, end, page;
    bool fence;        /* before pages are written in bulk */
    bool decides;      /* commits, prepares, or ends a transaction */
    uint64_t states;   /* of a seal: what was durable below it */
    uint64_t names[4]; /* LSNs of records before it that it names; 0: none */
};

/* What a database's files are like before the damage. */
struct ll_sim_situation {
    const char *what; /* "closed", "killed", "without power" */
    uint32_t calls;   /* of the workload's trace, before it */
    bool power;       /* what was not durable is lost */
    bool clean;       /* it was closed */
    struct ll_sim_image *image;
    struct ll_sim_claim claim;
    struct lladd_inspect_info info;
    uint64_t damage, repair;
    struct ll_sim_page_facts *page;
    uint64_t n_pages;
    struct ll_sim_record_facts *record; /* by LSN */
    uint32_t n_records, records_capacity;
    bool begins_inside; /* the log begins with the end of a record that was truncated, perhaps */
};

enum { LL_SIM_REGIONS = 64 };
struct ll_sim_region {
    uint32_t name;
    uint64_t off, len;
};

/* What the damaged bytes were good for. */
struct ll_sim_meaning {
    bool differs;     /* any byte does */
    bool solid;       /* somebody must notice */
    bool zeros;       /* what is there now is all zeros: as of a page that was never used */
    bool bulk;        /* a page of it was written in bulk, and never logged */
    bool one_page;    /* nothing but bytes of one page of the page file */
    uint64_t page;    /* that one */
    unsigned reasons; /* 1u << enum lladd_sim_reason: why nobody need notice the rest */
    uint64_t log_first, log_first_end, log_end; /* records that are damaged; UINT64_MAX: none */
    uint64_t tail;     /* that first one, if no watermark that is left says that it was durable */
    uint64_t page_lsn; /* highest page LSN of the pages that differ */
};

struct ll_sim_damaging {
    struct lladd_sim *sim;
    struct lladd_sim *other; /* another database of the same subject */
    struct lladd_sim_damage_report *report;
    struct ll_sim_situation now;
    uint32_t number;                         /* of the situation */
    bool counting;                           /* only count them */
    uint64_t count[LLADD_SIM_DAMAGE_KINDS];  /* all there are */
    uint64_t stride[LLADD_SIM_DAMAGE_KINDS]; /* which to try */
    uint64_t at[LLADD_SIM_DAMAGE_KINDS];     /* how far we are */
    /* Of a replay: only this one. */
    bool one;
    uint32_t one_situation, one_kind;
    uint64_t one_at;
    /* The damage that is being done. */
    enum lladd_sim_damage_kind kind;
    struct ll_sim_image *image;
    struct ll_sim_region region[LL_SIM_REGIONS];
    uint32_t n_regions;
    /* A read that goes wrong. */
    uint32_t read_name;
    uint64_t read_off, read_from;
    unsigned char read_bit; /* not 0: this bit of the byte at read_off instead */
    bool misread;
    /* What inspection has found last. */
    uint64_t found_damage, found_repair, found_end;
    char finding[300];
    char what[200]; /* the damage in words */
};

/* damage.c */
/* Is the next damage of this kind to be done? Then image is a copy of the files to be damaged. */
bool ll_sim_damage_next(struct ll_sim_damaging *, enum lladd_sim_damage_kind, int *rc);
int ll_sim_damage_put(struct ll_sim_damaging *, uint32_t name, uint64_t off, const void *bytes,
                      size_t len);
int ll_sim_damage_size(struct ll_sim_damaging *, uint32_t name, uint64_t size);
int ll_sim_damage_gone(struct ll_sim_damaging *, uint32_t name);
/* These bytes of the file have changed. */
void ll_sim_damage_region(struct ll_sim_damaging *, uint32_t name, uint64_t off, uint64_t len);
/* It is done: looks at what comes of it. */
int ll_sim_damage_try(struct ll_sim_damaging *, const char *fmt, ...) LLADD_PRINTF(2, 3);
/* Inspects files; the findings are in found_... `view` is nullable. */
int ll_sim_damage_inspect(struct ll_sim_damaging *, const struct ll_sim_image *,
                          struct lladd_inspect **view);
/* The files after so many calls of the workload, `skip` (from 0, or UINT32_MAX) left out. */
int ll_sim_damage_image(struct ll_sim_damaging *, struct ll_sim_arena *, uint32_t calls,
                        uint32_t skip, bool power, struct ll_sim_image *out);

/* damage_kinds.c */
int ll_sim_damage_all(struct ll_sim_damaging *);

/* damage_place.c */
/* Learns what the undamaged files hold. */
int ll_sim_damage_learn(struct ll_sim_damaging *);
/* And what is left of them once they were recovered. */
int ll_sim_damage_learn_after(struct ll_sim_damaging *, const struct ll_sim_image *);
/* Does nobody care what stands in this page? */
bool ll_sim_damage_nobodys(const struct ll_sim_situation *, uint64_t page);
void ll_sim_damage_meaning(struct ll_sim_damaging *, struct ll_sim_meaning *);
/* How many decisions lie in records at or behind an LSN. */
uint32_t ll_sim_damage_decisions_from(const struct ll_sim_situation *, uint64_t lsn);
/* The highest LSN that any page of the file says. */
uint64_t ll_sim_damage_newest(const struct ll_sim_damaging *, const struct ll_sim_image *);

#endif
