// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import com.sun.jna.Function;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.NativeLong;
import com.sun.jna.Pointer;
import java.util.List;
import javax.transaction.xa.XAException;
import javax.transaction.xa.Xid;

/**
 * A resource manager's struct xa_switch_t (X/Open C193), which is found by its name in a shared
 * object. The struct has a name of 32 bytes, two longs, and ten functions. The last function,
 * xa_complete, is not needed here. The methods return what the resource manager returned.
 */
final class XaSwitch {
    private static final int NAME = 32;
    private static final int DATA = 128;
    private static final int LONG = Native.LONG_SIZE;
    private static final int XID = 3 * LONG + DATA;
    private static final int NULL_FORMAT = -1;

    private enum Entry { OPEN, CLOSE, START, END, ROLLBACK, PREPARE, COMMIT, RECOVER, FORGET }

    private final Function[] entry = new Function[Entry.values().length];

    XaSwitch(NativeLibrary library, String symbol) {
        Pointer p = library.getGlobalVariableAddress(symbol);
        long at = NAME + 2L * LONG;
        for (Entry e : Entry.values()) {
            entry[e.ordinal()] = Function.getFunction(p.getPointer(at));
            at += Native.POINTER_SIZE;
        }
    }

    int open(String info, int rmid) {
        return text(Entry.OPEN, info, rmid);
    }

    int close(String info, int rmid) {
        return text(Entry.CLOSE, info, rmid);
    }

    int start(Xid xid, int rmid, int flags) {
        return call(Entry.START, xid, rmid, flags);
    }

    int end(Xid xid, int rmid, int flags) {
        return call(Entry.END, xid, rmid, flags);
    }

    int rollback(Xid xid, int rmid) {
        return call(Entry.ROLLBACK, xid, rmid, 0);
    }

    int prepare(Xid xid, int rmid) {
        return call(Entry.PREPARE, xid, rmid, 0);
    }

    int commit(Xid xid, int rmid, int flags) {
        return call(Entry.COMMIT, xid, rmid, flags);
    }

    int forget(Xid xid, int rmid) {
        return call(Entry.FORGET, xid, rmid, 0);
    }

    /** Appends at most `count` XIDs to `out`, and returns their number. A number below zero is an
     * error. */
    int recover(List<XidBytes> out, int count, int rmid, int flags) {
        try (Memory xids = new Memory((long) XID * count)) {
            xids.clear();
            int n = entry[Entry.RECOVER.ordinal()].invokeInt(
                    new Object[] {xids, nativeLong(count), rmid, nativeLong(flags)});
            for (int i = 0; i < n; i++) out.add(get(xids.share((long) XID * i)));
            return n;
        }
    }

    private int text(Entry e, String info, int rmid) {
        return entry[e.ordinal()].invokeInt(new Object[] {info, rmid, nativeLong(0)});
    }

    private int call(Entry e, Xid xid, int rmid, int flags) {
        try (Memory m = new Memory(XID)) {
            put(m, xid);
            return entry[e.ordinal()].invokeInt(new Object[] {m, rmid, nativeLong(flags)});
        }
    }

    private static NativeLong nativeLong(long value) {
        return new NativeLong(value);
    }

    private static void put(Pointer p, Xid xid) {
        byte[] global = xid.getGlobalTransactionId();
        byte[] branch = xid.getBranchQualifier();
        p.clear(XID);
        p.setNativeLong(0, nativeLong(xid.getFormatId()));
        p.setNativeLong(LONG, nativeLong(global.length));
        p.setNativeLong(2L * LONG, nativeLong(branch.length));
        p.write(3L * LONG, global, 0, global.length);
        p.write(3L * LONG + global.length, branch, 0, branch.length);
    }

    /* Takes a length out of range for 0, so that a resource manager that returns a wrong XID is
     * reported, and does not crash the test. */
    private static XidBytes get(Pointer p) {
        long format = p.getNativeLong(0).longValue();
        int global = length(p.getNativeLong(LONG).longValue());
        int branch = length(p.getNativeLong(2L * LONG).longValue());
        return new XidBytes((int) format, p.getByteArray(3L * LONG, global),
                p.getByteArray(3L * LONG + global, branch));
    }

    private static int length(long n) {
        return n < 0 || n > DATA / 2 ? 0 : (int) n;
    }

    /** Returns whether a return code says that the branch has been rolled back. */
    static boolean rolledBack(int rc) {
        return rc >= XAException.XA_RBBASE && rc <= XAException.XA_RBEND;
    }
}
