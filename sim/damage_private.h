/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_DAMAGE_PRIVATE_H
#define LL_SIM_DAMAGE_PRIVATE_H
/*
 * Internal interface of the tests of silent damage. damage.c judges the result of each damage,
 * damage_kinds.c generates the damages, and damage_place.c decides which bytes mean something.
 */
#include "sim/sim_private.h"

#include <lladd/inspect.h>

/* A page of the page file, before the damage. */
struct ll_sim_page_facts {
    uint64_t lsn, base;
    uint8_t use; /* enum lladd_page_use */
    bool zero;
    bool bad;     /* the crash has damaged the page already, e.g. torn it */
    bool bulk;    /* written in bulk, and the log contains no later record about the page */
    bool passing; /* free after recovery, which rolls back the transaction that allocated it */
};

/* A record of the log. */
struct ll_sim_record_facts {
    uint64_t lsn, end, page;
    bool barrier;      /* announces a bulk write of pages */
    bool decides;      /* commits, prepares or ends a transaction */
    uint64_t states;   /* in a seal: all of the log below this LSN was durable; 0: no seal */
    uint64_t names[4]; /* LSNs of the earlier records that this record refers to; 0: none */
};

/* The state of a database's files before the damage. */
struct ll_sim_situation {
    const char *what; /* "closed", "killed", "without power" */
    uint32_t calls;   /* number of calls that the workload has made before the situation */
    bool power;       /* the power has failed, and all pending operations are lost */
    bool clean;       /* the database was closed */
    struct ll_sim_image *image;
    struct ll_sim_claim claim;
    struct lladd_inspect_info info;
    uint64_t damage, repair;
    struct ll_sim_page_facts *page;
    uint64_t n_pages;
    struct ll_sim_record_facts *record; /* in LSN order */
    uint32_t n_records, records_capacity;
    bool begins_inside; /* the log may begin with the end of a record that was truncated */
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
    bool bulk;        /* includes a page with `bulk` in its facts */
    bool one_page;    /* all damaged bytes belong to one page of the page file */
    uint64_t page;    /* the last damaged page; UINT64_MAX: none */
    unsigned reasons; /* 1u << enum lladd_sim_reason: why some damaged bytes need not be noticed */
    /* The first damaged LSN (UINT64_MAX: none), the end of the record that contains it, and the end
     * of the last damaged record. */
    uint64_t log_first, log_first_end, log_end;
    uint64_t tail;     /* the library may take this LSN for the end of the log; UINT64_MAX: none */
    uint64_t page_lsn; /* highest page LSN of the pages that differ */
};

struct ll_sim_damaging {
    struct lladd_sim *sim;
    struct lladd_sim *other; /* another database of the same subject */
    struct lladd_sim_damage_report *report;
    struct ll_sim_situation now;
    uint32_t number;                         /* number of the situation */
    bool counting;                           /* count the damages without doing them */
    uint64_t count[LLADD_SIM_DAMAGE_KINDS];  /* number of possible damages */
    uint64_t stride[LLADD_SIM_DAMAGE_KINDS]; /* try every stride-th damage */
    uint64_t at[LLADD_SIM_DAMAGE_KINDS];     /* number of the next damage */
    /* For a replay: the only damage to try. */
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
/* Counts a damage of this kind. Returns true if the caller must do this damage; `image` is then a
 * fresh copy of the files. */
bool ll_sim_damage_next(struct ll_sim_damaging *, enum lladd_sim_damage_kind, int *rc);
int ll_sim_damage_put(struct ll_sim_damaging *, uint32_t name, uint64_t off, const void *bytes,
                      size_t len);
int ll_sim_damage_size(struct ll_sim_damaging *, uint32_t name, uint64_t size);
int ll_sim_damage_gone(struct ll_sim_damaging *, uint32_t name);
/* Records that these bytes of the file have changed. */
void ll_sim_damage_region(struct ll_sim_damaging *, uint32_t name, uint64_t off, uint64_t len);
/* Judges the damage after it was done. The format describes the damage. */
int ll_sim_damage_try(struct ll_sim_damaging *, const char *fmt, ...) LLADD_PRINTF(2, 3);
/* Makes an image of the files after the first `calls` calls of the workload. Call number `skip`,
 * counted from 0, is left out (UINT32_MAX: no call). */
int ll_sim_damage_image(struct ll_sim_damaging *, struct ll_sim_arena *, uint32_t calls,
                        uint32_t skip, bool power, struct ll_sim_image *out);

/* damage_kinds.c */
int ll_sim_damage_all(struct ll_sim_damaging *);

/* damage_place.c */
/* Reads what the undamaged files hold. */
int ll_sim_damage_learn(struct ll_sim_damaging *);
/* Reads which pages are still in use after recovery of the undamaged files. */
int ll_sim_damage_learn_after(struct ll_sim_damaging *, const struct ll_sim_image *);
/* Do the contents of this page mean nothing, because the page is zeros, free, damaged already, or
 * freed by recovery? */
bool ll_sim_damage_unused(const struct ll_sim_situation *, uint64_t page);
void ll_sim_damage_meaning(struct ll_sim_damaging *, struct ll_sim_meaning *);
/* Returns the number of records that end after the LSN and contain a decision. */
uint32_t ll_sim_damage_decisions_from(const struct ll_sim_situation *, uint64_t lsn);
/* Returns the highest page LSN in the image's page file. */
uint64_t ll_sim_damage_newest(const struct ll_sim_damaging *, const struct ll_sim_image *);

#endif
