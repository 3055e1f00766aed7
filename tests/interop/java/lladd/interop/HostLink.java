// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/** A connection to a Host. If the Host is gone, the calls of XAResource throw XAER_RMFAIL. */
final class HostLink implements Link, XAResource {
    enum Call { START, END, PREPARE, COMMIT, ROLLBACK, FORGET, RECOVER, ADD, READ, LOCKED, HEURISTIC }

    private final String socket;
    private final SocketChannel channel;
    private final DataInputStream in;
    private final DataOutputStream out;

    HostLink(String socket) throws IOException {
        this.socket = socket;
        channel = SocketChannel.open(UnixDomainSocketAddress.of(socket));
        in = new DataInputStream(Channels.newInputStream(channel));
        out = new DataOutputStream(Channels.newOutputStream(channel));
    }

    @Override
    public XAResource xa() {
        return this;
    }

    private int ask(Call what, XidBytes xid, int... arguments) throws IOException {
        java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
        DataOutputStream d = new DataOutputStream(bytes);
        d.writeByte(what.ordinal());
        if (xid != null) xid.write(d);
        for (int a : arguments) d.writeInt(a);
        bytes.writeTo(out);
        out.flush();
        return in.readInt();
    }

    /* ---- work ---- */

    @Override
    public void add(int account, long delta) throws IOException {
        int rc = ask(Call.ADD, null, account, (int) (delta >> 32), (int) delta);
        if (rc != 0) throw new IOException("accounts_add: " + rc);
    }

    @Override
    public long read(int account) throws IOException {
        int rc = ask(Call.READ, null, account);
        long balance = in.readLong();
        if (rc != 0) throw new IOException("accounts_read: " + rc);
        return balance;
    }

    @Override
    public boolean locked(int account) throws IOException {
        int rc = ask(Call.LOCKED, null, account);
        if (rc != 0 && rc != 1) throw new IOException("accounts_locked: " + rc);
        return rc == 1;
    }

    @Override
    public boolean decide(Xid xid, boolean commit) throws IOException {
        int rc = ask(Call.HEURISTIC, XidBytes.of(xid), commit ? 1 : 0);
        if (rc != 0) throw new IOException("accounts_decide: " + rc);
        return true;
    }

    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException e) {
            // The Host is gone: there is nothing to close.
        }
    }

    /* ---- XAResource ---- */

    private int call(Call what, Xid xid, int flags) throws XAException {
        try {
            return ask(what, XidBytes.of(xid), flags);
        } catch (IOException e) {
            throw gone(e);
        }
    }

    private static XAException gone(IOException e) {
        XAException x = new XAException(XAException.XAER_RMFAIL);
        x.initCause(e);
        return x;
    }

    private void check(Call what, Xid xid, int flags) throws XAException {
        int rc = call(what, xid, flags);
        if (rc != XA_OK) throw new XAException(rc);
    }

    @Override
    public void start(Xid xid, int flags) throws XAException {
        check(Call.START, xid, flags);
    }

    @Override
    public void end(Xid xid, int flags) throws XAException {
        check(Call.END, xid, flags);
    }

    @Override
    public int prepare(Xid xid) throws XAException {
        int rc = call(Call.PREPARE, xid, 0);
        if (rc != XA_OK && rc != XA_RDONLY) throw new XAException(rc);
        return rc;
    }

    @Override
    public void commit(Xid xid, boolean onePhase) throws XAException {
        check(Call.COMMIT, xid, onePhase ? 1 : 0);
    }

    @Override
    public void rollback(Xid xid) throws XAException {
        check(Call.ROLLBACK, xid, 0);
    }

    @Override
    public void forget(Xid xid) throws XAException {
        check(Call.FORGET, xid, 0);
    }

    @Override
    public Xid[] recover(int flag) throws XAException {
        try {
            int n = ask(Call.RECOVER, null, flag);
            if (n < 0) throw new XAException(n);
            Xid[] all = new Xid[n];
            for (int i = 0; i < n; i++) all[i] = XidBytes.read(in);
            return all;
        } catch (IOException e) {
            throw gone(e);
        }
    }

    @Override
    public boolean isSameRM(XAResource other) {
        return other instanceof HostLink h && h.socket.equals(socket);
    }

    @Override
    public int getTransactionTimeout() {
        return 0;
    }

    @Override
    public boolean setTransactionTimeout(int seconds) {
        return false;
    }
}
