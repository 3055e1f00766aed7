/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads libcurl when a store in S3 is opened. A program without such a store does not load libcurl,
 * because loading libcurl and its libraries takes several times as long as the start of the lladd
 * command. */
#include "ship/s3/s3_private.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libcurl.so.4"
#define VERSION_LEAST 0x075800u /* 7.88 */

/* ISO C has no conversion from void * to a function pointer. */
static bool find(void *library, const char *name, void *function, size_t size)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

int ll_s3_curl_load(struct ll_s3_curl *c, struct lladd_error *err)
{
    /* It stays loaded after dlclose: libraries that it needs have handlers that run at exit. */
    c->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!c->library)
        return lladd_error_set(err, LLADD_STORE_FAILED, "a store in S3 needs libcurl: %.150s",
                               dlerror());
#define FIND(name) find(c->library, "curl_" #name, &c->name, sizeof c->name)
    if (!FIND(global_init) || !FIND(global_cleanup) || !FIND(version_info) || !FIND(easy_init) ||
        !FIND(easy_cleanup) || !FIND(easy_setopt) || !FIND(easy_getinfo) || !FIND(easy_perform) ||
        !FIND(easy_strerror) || !FIND(slist_append) || !FIND(slist_free_all) ||
        c->version_info(CURLVERSION_NOW)->version_num < VERSION_LEAST)
        return lladd_error_set(err, LLADD_STORE_FAILED,
                               "a store in S3 needs libcurl 7.88; " LIBRARY " is older");
#undef FIND
    return 0;
}

void ll_s3_curl_unload(struct ll_s3_curl *c)
{
    if (c->library)
        (void)dlclose(c->library); /* the library stays; only its counter changes */
}
