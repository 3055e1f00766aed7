/* SPDX-License-Identifier: BSD-2-Clause */
/* Names, texts and roots of the error codes: three expansions of the table in error_list.h. */
#include <lladd/error.h>

const char *lladd_code_name(int code)
{
    switch (code) {
    case LLADD_OK:
        return "LLADD_OK";
#define CASE(name, number, root, text) \
    case number: \
        return #name;
        LLADD_ERROR_LIST(CASE)
#undef CASE
    default:
        return NULL;
    }
}

const char *lladd_code_text(int code)
{
    switch (code) {
    case LLADD_OK:
        return "success";
#define CASE(name, number, root, text) \
    case number: \
        return text;
        LLADD_ERROR_LIST(CASE)
#undef CASE
    default:
        return NULL;
    }
}

enum lladd_root lladd_code_root(int code)
{
    switch (code) {
#define CASE(name, number, root, text) \
    case number: \
        return LLADD_ROOT_##root;
        LLADD_ERROR_LIST(CASE)
#undef CASE
    default:
        return LLADD_ROOT_NONE;
    }
}
