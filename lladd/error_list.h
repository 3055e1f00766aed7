/* SPDX-License-Identifier: BSD-2-Clause */
/* The one table of error codes: X(name, number, root, text). It has no include guard, because the
 * enum, the strings and the documentation each include it with a macro of their own. The number of
 * a code never changes. The root says what the caller should do; the codes of root r are -(r + 1)
 * to -(r + 99). */
#ifndef LLADD_ERROR_ROOTS
#define LLADD_ERROR_ROOTS(X) \
    X(LLADD_ROOT_RETRY, 100, "try the transaction again") \
    X(LLADD_ROOT_ANSWER, 200, "an ordinary answer, not an error") \
    X(LLADD_ROOT_MISUSE, 300, "the call was wrong and has changed nothing") \
    X(LLADD_ROOT_RESOURCE, 400, "out of a resource; nothing changed, the transaction is usable") \
    X(LLADD_ROOT_DATA, 500, "stored bytes are wrong or cannot be read") \
    X(LLADD_ROOT_POISONED, 600, "the handle is poisoned: close it and open again")

#define LLADD_ERROR_LIST(X) \
    X(LLADD_LOG_FULL, -101, RETRY, "the log has reached its byte limit") \
    X(LLADD_BUSY, -102, RETRY, "another thread or transaction uses the object now") \
    X(LLADD_DEADLOCK, -103, RETRY, "this wait would complete a cycle of waiting transactions") \
    X(LLADD_CONFLICT, -104, RETRY, "another transaction has changed the data first") \
    X(LLADD_TIMEOUT, -105, RETRY, "the time limit of the wait has passed") \
    X(LLADD_TAKEN, -106, RETRY, "another thread has taken the transaction over") \
    X(LLADD_NOT_FOUND, -201, ANSWER, "the item does not exist") \
    X(LLADD_EXISTS, -202, ANSWER, "the item exists already") \
    X(LLADD_END, -203, ANSWER, "there are no more items") \
    X(LLADD_PAGE_FULL, -204, ANSWER, "the page has no room for the record") \
    X(LLADD_HEUR_COMMITTED, -205, ANSWER, "an administrator has committed the transaction") \
    X(LLADD_HEUR_ABORTED, -206, ANSWER, "an administrator has aborted the transaction") \
    X(LLADD_BAD_ARGUMENT, -301, MISUSE, "an argument is out of range") \
    X(LLADD_BAD_STATE, -302, MISUSE, "the handle is not in a state that allows the call") \
    X(LLADD_READ_ONLY, -303, MISUSE, "the transaction or database is read-only") \
    X(LLADD_OPEN_ACTION, -304, MISUSE, "a nested top action is still open") \
    X(LLADD_DEAD_SAVEPOINT, -305, MISUSE, "the savepoint no longer exists") \
    X(LLADD_NOT_A_DATABASE, -306, MISUSE, "the directory holds no LLADD database") \
    X(LLADD_LOCKED, -307, MISUSE, "a process has the database open or inspects it") \
    X(LLADD_FORKED, -308, MISUSE, "the handle belongs to the parent process") \
    X(LLADD_BAD_REGISTRATION, -309, MISUSE, "the registration is contradictory or incomplete") \
    X(LLADD_NO_OPERATION, -310, MISUSE, "the log needs an operation that is not registered") \
    X(LLADD_OUT_OF_RANGE, -311, MISUSE, "there is no such page, slot or offset") \
    X(LLADD_CLOSED, -312, MISUSE, "the handle is closed or invalid") \
    X(LLADD_WRONG_TYPE, -313, MISUSE, "the page or record is of another type") \
    X(LLADD_NEWER_FORMAT, -314, MISUSE, "the files are from a newer version of the library") \
    X(LLADD_TOO_LARGE, -315, MISUSE, "the item is longer than its limit") \
    X(LLADD_KEY_SIZE, -316, MISUSE, "a key or value does not have the table's length") \
    X(LLADD_DESTROYED, -317, MISUSE, "the structure has been destroyed") \
    X(LLADD_OTHER_DATABASE, -318, MISUSE, "transaction and structure are of different databases") \
    X(LLADD_DIVERGED, -319, MISUSE, "another copy of the database has gone on differently") \
    X(LLADD_REJECTED, -320, MISUSE, "no layer of the dTable can store the value") \
    X(LLADD_BAD_CONFIG, -321, MISUSE, "the configuration is invalid") \
    X(LLADD_NO_COMPARATOR, -322, MISUSE, "the keys need a comparator that is not registered") \
    X(LLADD_OTHER_ORDER, -323, MISUSE, "the comparator's order is not that of the stored keys") \
    X(LLADD_OTHER_FILTER, -324, MISUSE, "the store was written with another filter or key") \
    X(LLADD_NO_MEMORY, -401, RESOURCE, "out of memory") \
    X(LLADD_NO_SPACE, -402, RESOURCE, "no space left on the device") \
    X(LLADD_NO_FRAME, -403, RESOURCE, "every page of the cache is fixed") \
    X(LLADD_NO_FILES, -404, RESOURCE, "too many open files") \
    X(LLADD_NO_ACCESS, -405, RESOURCE, "permission denied or read-only file system") \
    X(LLADD_NO_THREAD, -406, RESOURCE, "a thread could not be started") \
    X(LLADD_STORE_FAILED, -407, RESOURCE, "a store of backups could not be read or written") \
    X(LLADD_CORRUPT_LOG, -501, DATA, "the log is damaged in a part that was durable") \
    X(LLADD_CORRUPT_PAGE, -502, DATA, "a page is damaged and could not be rebuilt") \
    X(LLADD_CORRUPT_CONTROL, -503, DATA, "both copies of the control block are damaged") \
    X(LLADD_BAD_RECORD, -504, DATA, "the contents of a log record do not fit its operation") \
    X(LLADD_MISSING_FILE, -505, DATA, "a file of the database is missing or too short") \
    X(LLADD_FOREIGN_FILE, -506, DATA, "a file belongs to another database") \
    X(LLADD_READ_FAILED, -507, DATA, "the device could not read") \
    X(LLADD_CORRUPT_RUN, -508, DATA, "a run of a dTable is damaged") \
    X(LLADD_LOG_LOST, -509, DATA, "the log has lost its end: a page is newer than the log") \
    X(LLADD_CORRUPT_BACKUP, -510, DATA, "a file of a backup is damaged or missing") \
    X(LLADD_WRITE_FAILED, -601, POISONED, "the device could not write or sync") \
    X(LLADD_UNDO_FAILED, -602, POISONED, "a rollback could not be carried out") \
    X(LLADD_BUG, -603, POISONED, "an invariant of the library does not hold")
#endif
