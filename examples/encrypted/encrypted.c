/* SPDX-License-Identifier: BSD-2-Clause */
/* encrypted backup DIRECTORY STORE KEYFILE
 * encrypted restore STORE DIRECTORY KEYFILE
 *
 * Makes a backup of a database that no process has open, and a database out of it. The store has
 * only encrypted objects: AES-256 in GCM, by OpenSSL. KEYFILE has 32 random bytes, for example from
 * "openssl rand -out KEYFILE 32". Without the key the store cannot be read. */
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/lladd.h>
#include <lladd/ship.h>

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

/* [filter] */
enum { KEY = 32, NONCE = 12, TAG = 16 };

/* What is authenticated with each block: where it belongs. */
static int about(EVP_CIPHER_CTX *c, int (*update)(EVP_CIPHER_CTX *, unsigned char *, int *,
                                                  const unsigned char *, int),
                 const struct lladd_filter_block *b)
{
    unsigned char numbers[16];
    int n;
    lladd_put64(numbers, b->offset);
    lladd_put64(numbers + 8, b->size);
    return update(c, NULL, &n, numbers, sizeof numbers) &&
           update(c, NULL, &n, (const unsigned char *)b->object, (int)strlen(b->object));
}

/* An object out: a random nonce, the encrypted bytes, the tag. */
static int encrypt(void *key, const struct lladd_filter_block *b, const void *bytes, size_t len,
                   void *to, size_t room, size_t *made, struct lladd_error *err)
{
    unsigned char *nonce = to, *text = nonce + NONCE;
    int n = 0, rest = 0;
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int ok = c && room >= NONCE + len + TAG && RAND_bytes(nonce, NONCE) == 1 &&
             EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) &&
             about(c, EVP_EncryptUpdate, b) && EVP_EncryptUpdate(c, text, &n, bytes, (int)len) &&
             EVP_EncryptFinal_ex(c, text + n, &rest) &&
             EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG, text + len);
    EVP_CIPHER_CTX_free(c);
    *made = NONCE + len + TAG;
    return ok ? 0 : lladd_error_set(err, LLADD_STORE_FAILED, "OpenSSL cannot encrypt");
}

/* An object in. GCM notices another key, changed bytes, and a block that was moved. */
static int decrypt(void *key, const struct lladd_filter_block *b, const void *bytes, size_t len,
                   void *to, size_t room, size_t *made, struct lladd_error *err)
{
    const unsigned char *nonce = bytes, *text = nonce + NONCE;
    unsigned char tag[TAG];
    int n = 0, rest = 0;
    if (len != NONCE + room + TAG)
        return lladd_error_set(err, LLADD_OTHER_FILTER, "a block has a wrong length");
    memcpy(tag, text + room, TAG);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int ok = c && EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) &&
             about(c, EVP_DecryptUpdate, b) && EVP_DecryptUpdate(c, to, &n, text, (int)room) &&
             EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG, tag) &&
             EVP_DecryptFinal_ex(c, (unsigned char *)to + n, &rest) > 0;
    EVP_CIPHER_CTX_free(c);
    *made = room;
    return ok ? 0 : lladd_error_set(err, LLADD_OTHER_FILTER, "another key, or changed bytes");
}

static int open_store(const char *url, unsigned char key[KEY], struct lladd_store **out,
                      struct lladd_error *err)
{
    struct lladd_store_filter filter = LLADD_STORE_FILTER_INIT;
    struct lladd_store_options o = LLADD_STORE_OPTIONS_INIT;
    filter.name = "aes-256-gcm"; /* is stored with each object, as it is */
    filter.out = encrypt;
    filter.in = decrypt;
    filter.ctx = key;
    o.filter = &filter;
    return lladd_store_open(url, &o, out, err);
}
/* [/filter] */

static int read_key(const char *path, unsigned char key[KEY], struct lladd_error *err)
{
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(key, 1, KEY, file) : 0;
    if (file)
        (void)fclose(file); /* was only read */
    return got == KEY ? 0 : lladd_error_set(err, LLADD_NO_ACCESS, "no key of %d bytes", KEY);
}

static int backup(const char *dir, struct lladd_store *store, struct lladd_error *err)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_db *db;
    o.flags = LLADD_OPT_MUST_EXIST;
    int rc = lladd_open(dir, &o, &db, err);
    if (rc)
        return rc;
    rc = lladd_backup(db, store, NULL, NULL, err);
    int closed = lladd_close(db);
    return rc ? rc : closed;
}

static int restore(struct lladd_store *store, const char *dir, struct lladd_error *err)
{
    struct lladd_device *disk;
    int rc = lladd_device_posix(dir, true, &disk, err);
    if (rc)
        return rc;
    rc = lladd_restore(store, NULL, disk, NULL, err);
    lladd_device_close(disk);
    return rc;
}

static int tell(void *ctx, const struct lladd_finding *f)
{
    (void)ctx;
    printf("%s: %s\n", f->file, f->message);
    return 0;
}

/* Proves that the last backup can be restored, as "lladd archive check" does. */
static int check(struct lladd_store *store, struct lladd_error *err)
{
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    struct lladd_check_info info = {.struct_size = sizeof info};
    o.finding = tell;
    int rc = lladd_archive_check(store, &o, &info, err);
    return !rc && info.damage ? lladd_error_set(err, LLADD_CORRUPT_BACKUP, "damaged") : rc;
}

int main(int argc, char **argv)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store = NULL;
    unsigned char key[KEY];
    int saves = argc == 5 && strcmp(argv[1], "backup") == 0;
    int restores = argc == 5 && strcmp(argv[1], "restore") == 0;
    if (!saves && !restores && (argc != 4 || strcmp(argv[1], "check") != 0))
        return fputs("encrypted backup DIRECTORY STORE KEYFILE\n"
                     "encrypted restore STORE DIRECTORY KEYFILE\n"
                     "encrypted check STORE KEYFILE\n",
                     stderr),
               2;
    int rc = read_key(argv[argc - 1], key, &err);
    if (!rc)
        rc = open_store(argv[saves ? 3 : 2], key, &store, &err);
    if (!rc)
        rc = saves      ? backup(argv[2], store, &err)
             : restores ? restore(store, argv[3], &err)
                        : check(store, &err);
    lladd_store_close(store);
    if (rc)
        fprintf(stderr, "encrypted: %s: %s\n", lladd_code_name(rc), err.message);
    return rc != 0;
}
