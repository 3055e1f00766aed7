/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_CPLUSPLUS_H
#define LLADD_CPLUSPLUS_H
/**
 * @file
 * @brief For C++: functions that have the name of a struct or an enum.
 *
 * In C++ a function hides a struct of the same name, so the struct would have to be written `struct
 * lladd_stats` everywhere. Therefore these functions are macros in C++. A function-like macro is
 * expanded only before arguments, so `lladd_stats s{}; lladd_stats(db, &s);` works. The symbols are
 * those of C (LLADD_SYMBOL). C++ cannot take the address of such a function. <lladd/types.h>
 * includes this file.
 * @ingroup lladd
 */
#define lladd_ctable_row(...) lladd_ctable_row_(__VA_ARGS__)
#define lladd_dst_point(...) lladd_dst_point_(__VA_ARGS__)
#define lladd_dst_run_stats(...) lladd_dst_run_stats_(__VA_ARGS__)
#define lladd_dtable_cache_stats(...) lladd_dtable_cache_stats_(__VA_ARGS__)
#define lladd_dtable_caps(...) lladd_dtable_caps_(__VA_ARGS__)
#define lladd_dtable_cells(...) lladd_dtable_cells_(__VA_ARGS__)
#define lladd_dtable_run_info(...) lladd_dtable_run_info_(__VA_ARGS__)
#define lladd_dtable_source(...) lladd_dtable_source_(__VA_ARGS__)
#define lladd_dtable_value(...) lladd_dtable_value_(__VA_ARGS__)
#define lladd_hash_stats(...) lladd_hash_stats_(__VA_ARGS__)
#define lladd_inspect(...) lladd_inspect_(__VA_ARGS__)
#define lladd_inspect_info(...) lladd_inspect_info_(__VA_ARGS__)
#define lladd_inspect_page(...) lladd_inspect_page_(__VA_ARGS__)
#define lladd_lock_stats(...) lladd_lock_stats_(__VA_ARGS__)
#define lladd_managed_stats(...) lladd_managed_stats_(__VA_ARGS__)
#define lladd_page_use(...) lladd_page_use_(__VA_ARGS__)
#define lladd_sim_contract(...) lladd_sim_contract_(__VA_ARGS__)
#define lladd_stats(...) lladd_stats_(__VA_ARGS__)
#define lladd_txn_now(...) lladd_txn_now_(__VA_ARGS__)

#endif
