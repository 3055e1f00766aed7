// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/**
 * One connection to a resource manager that keeps accounts: its XA side for the transaction manager,
 * and the work. Used by one thread at a time.
 */
interface Link extends AutoCloseable {
    XAResource xa();

    /** Adds to an account, within the branch that was started on this connection. */
    void add(int account, long delta) throws Exception;

    /** The balance as other transactions may see it, outside any branch. */
    long read(int account) throws Exception;

    /** Whether a lock keeps other transactions from changing this account. */
    boolean locked(int account) throws Exception;

    /** An administrator's decision about a branch in doubt; false if the resource manager has no
     * such call. */
    default boolean decide(Xid xid, boolean commit) throws Exception {
        return false;
    }

    @Override
    void close();

    /** "postgres:PORT" or "host:SOCKET", as returned by Server.where(). */
    static Link open(String where) throws Exception {
        String[] part = where.split(":", 2);
        return switch (part[0]) {
            case "postgres" -> new PostgresLink(Integer.parseInt(part[1]));
            case "host" -> new HostLink(part[1]);
            default -> throw new IllegalArgumentException("\"" + where + "\" names no kind of server");
        };
    }
}
