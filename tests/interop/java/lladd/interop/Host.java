// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.Set;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;

/**
 * The process of a C resource manager. It can be killed without the transaction manager. It loads
 * the accounts' library (tests/interop/accounts.h) and the switch that the library names. It serves
 * connections on a socket, each with a thread of control of its own. When a connection breaks, the
 * branches that were begun on it and not prepared are rolled back.
 *
 *     Host SOCKET LIBRARY OPEN-STRING ACCOUNTS BALANCE
 */
final class Host implements Runnable {
    private static final int RMID = 1;

    private static NativeLibrary library;
    private static XaSwitch rm;
    private static Pointer accounts;

    private final SocketChannel channel;
    private final String info;
    private final Set<XidBytes> loose = new LinkedHashSet<>();
    private XidBytes working;

    private Host(SocketChannel channel, String info) {
        this.channel = channel;
        this.info = info;
    }

    public static void main(String[] args) throws IOException {
        Path socket = Path.of(args[0]);
        library = NativeLibrary.getInstance(args[1]);
        rm = new XaSwitch(library, library.getFunction("accounts_switch").invokeString(
                new Object[0], false));
        succeed(call("accounts_register", RMID, args[2]), "accounts_register");
        succeed(rm.open(args[2], RMID), "xa_open");
        PointerByReference out = new PointerByReference();
        succeed(call("accounts_open", RMID, Integer.parseInt(args[3]),
                Long.parseLong(args[4]), out), "accounts_open");
        accounts = out.getValue();
        Files.deleteIfExists(socket);
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(UnixDomainSocketAddress.of(socket));
            while (true) {
                new Thread(new Host(server.accept(), args[2])).start();
            }
        }
    }

    private static int call(String function, Object... args) {
        Function f = library.getFunction(function);
        return f.invokeInt(args);
    }

    private static void succeed(int rc, String what) {
        if (rc != 0) {
            System.err.println(what + " returned " + rc);
            Runtime.getRuntime().halt(1);
        }
    }

    @Override
    public void run() {
        succeed(rm.open(info, RMID), "xa_open");
        XAResource xa = new CXaResource(rm, RMID);
        try (channel; DataInputStream in = new DataInputStream(Channels.newInputStream(channel));
                DataOutputStream out = new DataOutputStream(Channels.newOutputStream(channel))) {
            while (true) {
                serve(xa, in, out);
                out.flush();
            }
        } catch (EOFException e) {
            // The other end has closed the connection.
        } catch (IOException e) {
            System.err.println("connection: " + e);
        }
        abandon(xa);
        succeed(rm.close("", RMID), "xa_close");
    }

    private void abandon(XAResource xa) {
        try {
            if (working != null) xa.end(working, XAResource.TMFAIL);
        } catch (XAException e) {
            System.err.println("end " + working + ": " + e.errorCode);
        }
        for (XidBytes xid : loose) {
            try {
                xa.rollback(xid);
            } catch (XAException e) {
                System.err.println("rollback " + xid + ": " + e.errorCode);
            }
        }
    }

    private void serve(XAResource xa, DataInputStream in, DataOutputStream out) throws IOException {
        HostLink.Call what = HostLink.Call.values()[in.readUnsignedByte()];
        switch (what) {
            case ADD -> answer(out, call("accounts_add", accounts, in.readInt(), in.readLong()));
            case READ -> {
                LongByReference balance = new LongByReference();
                int rc = call("accounts_read", accounts, in.readInt(), balance);
                answer(out, rc);
                out.writeLong(balance.getValue());
            }
            case LOCKED -> answer(out, call("accounts_locked", accounts, in.readInt()));
            case HEURISTIC -> {
                XidBytes xid = XidBytes.read(in);
                answer(out, call("accounts_decide", accounts, xid.format(), xid.global().length,
                        xid.global(), xid.branch().length, xid.branch(), in.readInt()));
            }
            case RECOVER -> recover(xa, in, out);
            default -> resource(xa, what, XidBytes.read(in), in.readInt(), out);
        }
    }

    private static void answer(DataOutputStream out, int rc) throws IOException {
        out.writeInt(rc);
    }

    private static void recover(XAResource xa, DataInputStream in, DataOutputStream out)
            throws IOException {
        try {
            javax.transaction.xa.Xid[] all = xa.recover(in.readInt());
            out.writeInt(all.length);
            for (javax.transaction.xa.Xid xid : all) XidBytes.of(xid).write(out);
        } catch (XAException e) {
            out.writeInt(e.errorCode);
        }
    }

    private void resource(XAResource xa, HostLink.Call what, XidBytes xid, int flags,
            DataOutputStream out) throws IOException {
        int rc = 0;
        try {
            switch (what) {
                case START -> {
                    xa.start(xid, flags);
                    working = xid;
                    // When connections break, only the one that began the branch rolls it back.
                    if (flags == XAResource.TMNOFLAGS) loose.add(xid);
                }
                case END -> {
                    xa.end(xid, flags);
                    working = null;
                }
                case PREPARE -> {
                    rc = xa.prepare(xid);
                    loose.remove(xid);
                }
                case COMMIT -> {
                    xa.commit(xid, flags != 0);
                    loose.remove(xid);
                }
                case ROLLBACK -> {
                    xa.rollback(xid);
                    loose.remove(xid);
                }
                case FORGET -> xa.forget(xid);
                default -> throw new IOException("call " + what + " is not of XAResource");
            }
        } catch (XAException e) {
            rc = e.errorCode;
            if (XaSwitch.rolledBack(rc) || rc == XAException.XAER_NOTA) loose.remove(xid);
        }
        answer(out, rc);
    }
}
