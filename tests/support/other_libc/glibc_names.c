/* SPDX-License-Identifier: BSD-2-Clause */
/* For C libraries other than glibc. The archive of Check was compiled with glibc's headers, so it
 * uses names that only glibc has. This file defines these names. It is linked only into tests
 * (cmake/Tests.cmake). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

int __fprintf_chk(FILE *, int, const char *, ...) __attribute__((format(printf, 3, 4)));
int __printf_chk(int, const char *, ...) __attribute__((format(printf, 2, 3)));
int __vfprintf_chk(FILE *, int, const char *, va_list) __attribute__((format(printf, 3, 0)));
int __snprintf_chk(char *, size_t, int, size_t, const char *, ...)
    __attribute__((format(printf, 5, 6)));
int __vsnprintf_chk(char *, size_t, int, size_t, const char *, va_list)
    __attribute__((format(printf, 5, 0)));
void __longjmp_chk(jmp_buf, int) __attribute__((noreturn));
void __pthread_register_cancel(void *);
void __pthread_unregister_cancel(void *);

int __vfprintf_chk(FILE *file, int flag, const char *fmt, va_list args)
{
    (void)flag;
    return vfprintf(file, fmt, args);
}

int __fprintf_chk(FILE *file, int flag, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = __vfprintf_chk(file, flag, fmt, args);
    va_end(args);
    return n;
}

int __printf_chk(int flag, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = __vfprintf_chk(stdout, flag, fmt, args);
    va_end(args);
    return n;
}

int __vsnprintf_chk(char *to, size_t size, int flag, size_t room, const char *fmt, va_list args)
{
    (void)flag;
    return vsnprintf(to, size < room ? size : room, fmt, args);
}

int __snprintf_chk(char *to, size_t size, int flag, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = __vsnprintf_chk(to, size, flag, room, fmt, args);
    va_end(args);
    return n;
}

void __longjmp_chk(jmp_buf to, int value)
{
    longjmp(to, value);
}

/* No test cancels a thread. */
void __pthread_register_cancel(void *buffer)
{
    (void)buffer;
}

void __pthread_unregister_cancel(void *buffer)
{
    (void)buffer;
}
