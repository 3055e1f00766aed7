/* SPDX-License-Identifier: BSD-2-Clause */
/* Generates the table lineitem of TPC-H; see common_lineitem.h. */
#include "common_lineitem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Orders, parts and suppliers at scale 1, by the specification. */
#define ORDERS 1500000.0
#define PARTS 200000.0
#define SUPPLIERS 10000.0
#define LINES 7            /* most lines of an order */
#define POOL (16u << 20)   /* bytes of text from which comments are cut */
/* A comment has between 0.4 and 1.6 times the specified average of 27 bytes, rounded down. */
#define COMMENT_LEAST 10u
#define COMMENT_MOST 43u
/* Days since 1970: the first order (1992-01-01), the last order (151 days before 1998-12-31), and
 * the specification's "current date" (1995-06-17). */
#define FIRST_ORDER 8035u
#define LAST_ORDER 10440u
#define TODAY 9298u

struct lineitem {
    uint64_t seed, orders, order, parts, suppliers;
    uint32_t line, lines, date;
    char *pool;
};

static uint64_t chance(struct lineitem *l)
{
    uint64_t x = l->seed += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t among(struct lineitem *l, uint64_t from, uint64_t to)
{
    return (uint32_t)(from + (chance(l) >> 32) * (to - from + 1) / (UINT64_C(1) << 32));
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Words of one kind. Words with the same weight share an entry; the last entry has no list. */
struct words {
    unsigned weight;
    const char *list; /* separated by commas */
};
static const struct words nouns[] = {
    {40, "packages,requests,accounts,deposits"},
    {20, "foxes,ideas,theodolites,pinto beans,instructions"},
    {10, "dependencies,excuses,platelets,asymptotes"},
    {5, "courts,dolphins"},
    {1, "multipliers,sauternes,warthogs,frets,dinos,attainments,somas,Tiresias,patterns,forges,"
        "braids,hockey players,frays,warhorses,dugouts,notornis,epitaphs,pearls,tithes,waters,"
        "orbits,gifts,sheaves,depths,sentiments,decoys,realms,pains,grouches,escapades"},
    {0, NULL}};
static const struct words verbs[] = {
    {20, "sleep,wake,are,cajole,haggle"},
    {10, "nag,use,boost"},
    {5, "affix,detect,integrate"},
    {1, "maintain,nod,was,lose,sublate,solve,thrash,promise,engage,hinder,print,x-ray,breach,eat,"
        "grow,impress,mold,poach,serve,run,dazzle,snooze,doze,unwind,kindle,play,hang,believe,"
        "doubt"},
    {0, NULL}};
static const struct words adjectives[] = {
    {50, "regular"},
    {40, "final,ironic"},
    {30, "even"},
    {20, "special,pending,unusual,express,bold"},
    {10, "silent"},
    {1, "furious,sly,careful,blithe,quick,fluffy,slow,quiet,ruthless,thin,close,dogged,daring,"
        "brave,stealthy,permanent,enticing,idle,busy"},
    {0, NULL}};
static const struct words adverbs[] = {
    {50, "furiously,slyly,carefully"},
    {40, "blithely"},
    {30, "quickly"},
    {20, "fluffily"},
    {1, "sometimes,always,never,slowly,quietly,ruthlessly,thinly,closely,doggedly,daringly,"
        "bravely,stealthily,permanently,enticingly,idly,busily,regularly,finally,ironically,"
        "evenly,boldly,silently"},
    {0, NULL}};
static const struct words prepositions[] = {
    {50, "about,above,according to,across,after"},
    {40, "against,along"},
    {30, "alongside of,among"},
    {20, "around"},
    {10, "at"},
    {1, "atop,before,behind,beneath,beside,besides,between,beyond,by,despite,during,except,for,"
        "from,in place of,inside,instead of,into,near,of,on,outside,over,past,since,through,"
        "throughout,to,toward,under,until,up,upon,without,with,within"},
    {0, NULL}};
static const struct words auxiliaries[] = {
    {1, "do,may,might,shall,will,would,can,could,should,ought to,must,will have to,shall have to,"
        "could have to,should have to,must have to,need to,try to"},
    {0, NULL}};
static const struct words terminators[] = {{50, "."}, {1, ";,:,?,!,--"}, {0, NULL}};
/* Forms of the grammar. A character stands for a word, a phrase or a comma, see put_letter. */
static const struct words noun_phrases[] = {
    {50, "D J N"}, {20, "J N"}, {10, "N,J; J N"}, {0, NULL}};
static const struct words verb_phrases[] = {
    {40, "V D"}, {30, "V"}, {1, "X V,X V D"}, {0, NULL}};
static const struct words sentences[] = {
    {3, "n v T,n p v T,n v n T"}, {1, "n p v n T,n p v p T"}, {0, NULL}};

static unsigned count_of(const char *list)
{
    unsigned n = 1;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

static struct lineitem_text pick(struct lineitem *l, const struct words *kind)
{
    unsigned all = 0;
    for (const struct words *w = kind; w->list; w++)
        all += w->weight * count_of(w->list);
    unsigned at = among(l, 0, all - 1);
    while (at >= kind->weight * count_of(kind->list)) {
        at -= kind->weight * count_of(kind->list);
        kind++;
    }
    const char *word = kind->list;
    for (at /= kind->weight; at > 0; at--)
        word = strchr(word, ',') + 1;
    return (struct lineitem_text){word, strcspn(word, ",")};
}

struct text {
    char *at, *end;
};

static void put(struct text *t, struct lineitem_text word)
{
    size_t left = (size_t)(t->end - t->at), n = word.len < left ? word.len : left;
    memcpy(t->at, word.bytes, n);
    t->at += n;
}

static void put_form(struct lineitem *l, struct text *t, struct lineitem_text form);

static void put_letter(struct lineitem *l, struct text *t, char letter)
{
    static const struct {
        char letter;
        const struct words *words;
        bool form;
    } kinds[] = {{'N', nouns, false},        {'V', verbs, false},       {'J', adjectives, false},
                 {'D', adverbs, false},      {'X', auxiliaries, false}, {'T', terminators, false},
                 {'P', prepositions, false}, {'n', noun_phrases, true}, {'v', verb_phrases, true}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].letter == letter && kinds[i].form)
            put_form(l, t, pick(l, kinds[i].words));
        else if (kinds[i].letter == letter)
            put(t, pick(l, kinds[i].words));
    if (letter == 'p')
        put_form(l, t, (struct lineitem_text){"P t n", 5});
    if (letter == 't')
        put(t, (struct lineitem_text){"the", 3});
    if (letter == ';')
        put(t, (struct lineitem_text){",", 1});
}

static void put_form(struct lineitem *l, struct text *t, struct lineitem_text form)
{
    for (size_t i = 0; i < form.len; i++)
        if (form.bytes[i] == ' ' && form.bytes[i + 1] != 'T') /* no blank before a terminator */
            put(t, (struct lineitem_text){" ", 1});
        else
            put_letter(l, t, form.bytes[i]);
}

static void write_pool(struct lineitem *l)
{
    struct text t = {l->pool, l->pool + POOL};
    while (t.at < t.end) {
        put_form(l, &t, pick(l, sentences));
        put(&t, (struct lineitem_text){" ", 1});
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct lineitem *lineitem_new(double scale, uint64_t seed)
{
    if (!(scale >= 0.00001 && scale <= 100))
        return NULL;
    struct lineitem *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->pool = malloc(POOL);
    if (!l->pool) {
        free(l);
        return NULL;
    }
    l->seed = seed;
    l->orders = (uint64_t)(scale * ORDERS);
    l->parts = (uint64_t)(scale * PARTS) + (scale * PARTS < 1);
    l->suppliers = (uint64_t)(scale * SUPPLIERS) + (scale * SUPPLIERS < 1);
    write_pool(l);
    return l;
}

void lineitem_free(struct lineitem *l)
{
    if (l)
        free(l->pool);
    free(l);
}

static struct lineitem_text one_of(struct lineitem *l, const char *list)
{
    const struct words words[] = {{1, list}, {0, NULL}};
    return pick(l, words);
}

static void fill_numbers(struct lineitem *l, uint32_t *n)
{
    const uint64_t s = l->suppliers, part = among(l, 1, l->parts);
    n[L_ORDERKEY] = (uint32_t)(l->order / 8 * 32 + l->order % 8); /* 8 of every 32 keys are used */
    n[L_PARTKEY] = (uint32_t)part;
    n[L_SUPPKEY] = (uint32_t)((part + among(l, 0, 3) * (s / 4 + (part - 1) / s)) % s + 1);
    n[L_LINENUMBER] = l->line;
    n[L_QUANTITY] = among(l, 1, 50);
    uint32_t price = (uint32_t)(90000 + part / 10 % 20001 + 100 * (part % 1000));
    n[L_EXTENDEDPRICE] = n[L_QUANTITY] * price;
    n[L_DISCOUNT] = among(l, 0, 10);
    n[L_TAX] = among(l, 0, 8);
    n[L_SHIPDATE] = l->date + among(l, 1, 121);
    n[L_COMMITDATE] = l->date + among(l, 30, 90);
    n[L_RECEIPTDATE] = n[L_SHIPDATE] + among(l, 1, 30);
}

bool lineitem_next(struct lineitem *l, struct lineitem_row *row)
{
    struct lineitem_text *text = row->text;
    if (l->line == l->lines) {
        if (l->order == l->orders)
            return false;
        l->order++;
        l->line = 0;
        l->lines = among(l, 1, LINES);
        l->date = among(l, FIRST_ORDER, LAST_ORDER);
    }
    l->line++;
    fill_numbers(l, row->number);
    text[L_RETURNFLAG - LINEITEM_NUMBERS] =
        row->number[L_RECEIPTDATE] <= TODAY ? one_of(l, "R,A") : one_of(l, "N");
    text[L_LINESTATUS - LINEITEM_NUMBERS] =
        one_of(l, row->number[L_SHIPDATE] > TODAY ? "O" : "F");
    text[L_SHIPINSTRUCT - LINEITEM_NUMBERS] =
        one_of(l, "DELIVER IN PERSON,COLLECT COD,TAKE BACK RETURN,NONE");
    text[L_SHIPMODE - LINEITEM_NUMBERS] = one_of(l, "REG AIR,AIR,RAIL,TRUCK,MAIL,FOB,SHIP");
    size_t len = among(l, COMMENT_LEAST, COMMENT_MOST);
    text[L_COMMENT - LINEITEM_NUMBERS] =
        (struct lineitem_text){l->pool + among(l, 0, POOL - COMMENT_MOST), len};
    return true;
}

/* ---- output ---------------------------------------------------------------------------------- */

const char *lineitem_name(enum lineitem_column c)
{
    static const char *const names[LINEITEM_COLUMNS] = {
        "l_orderkey",      "l_partkey",    "l_suppkey",    "l_linenumber",
        "l_quantity",      "l_extendedprice", "l_discount", "l_tax",
        "l_shipdate",      "l_commitdate", "l_receiptdate", "l_returnflag",
        "l_linestatus",    "l_shipinstruct", "l_shipmode", "l_comment"};
    return names[c];
}

/* Converts days since 1970 to a Gregorian date, by the calendar's cycle of 400 years. The
 * calculation begins a year in March, so that a leap day is the last day of a year. */
static size_t print_date(uint32_t days, char *out)
{
    enum { TO_1970 = 719468, CYCLE = 146097, CENTURY = 36524, FOUR = 1461, YEAR = 365 };
    uint32_t cycle = (days + TO_1970) / CYCLE, day = (days + TO_1970) % CYCLE;
    uint32_t year = (day - day / (FOUR - 1) + day / CENTURY - day / (CYCLE - 1)) / YEAR;
    uint32_t of_year = day - (YEAR * year + year / 4 - year / 100);
    uint32_t month = (5 * of_year + 2) / 153, of_month = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    return (size_t)snprintf(out, 64, "%u-%02u-%02u", cycle * 400 + year + (month <= 2), month,
                            of_month);
}

size_t lineitem_print(const struct lineitem_row *row, enum lineitem_column c, char *out)
{
    if (c >= LINEITEM_NUMBERS) {
        const struct lineitem_text *t = &row->text[c - LINEITEM_NUMBERS];
        memcpy(out, t->bytes, t->len);
        return t->len;
    }
    uint32_t n = row->number[c];
    if (c == L_SHIPDATE || c == L_COMMITDATE || c == L_RECEIPTDATE)
        return print_date(n, out);
    bool money = c == L_EXTENDEDPRICE || c == L_DISCOUNT || c == L_TAX;
    return (size_t)(money ? snprintf(out, 64, "%u.%02u", n / 100, n % 100)
                          : snprintf(out, 64, "%u", n));
}
