// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/**
 * One connection to a resource manager that keeps accounts: its XA side for the transaction
 * manager, and the work. One thread at a time uses a connection.
 */
interface Link extends AutoCloseable {
    XAResource xa();

    /** Adds to an account, within the branch that was started on this connection. */
    void add(int account, long delta) throws Exception;

    /** Returns the balance as other transactions may see it, outside any branch. */
    long read(int account) throws Exception;

    /** Returns whether a lock keeps other transactions from changing this account. */
    boolean locked(int account) throws Exception;

    /** Makes an administrator's decision about a branch in doubt. Returns false if the resource
     * manager has no call for this. */
    default boolean decide(Xid xid, boolean commit) throws Exception {
        return false;
    }

    @Override
    void close();

    /** Opens a connection. `where` is what Server.where() returns: "postgres:PORT" or
     * "host:SOCKET". */
    static Link open(String where) throws Exception {
        String[] part = where.split(":", 2);
        return switch (part[0]) {
            case "postgres" -> new PostgresLink(Integer.parseInt(part[1]));
            case "host" -> new HostLink(part[1]);
            default -> throw new IllegalArgumentException("\"" + where + "\" names no kind of server");
        };
    }
}
