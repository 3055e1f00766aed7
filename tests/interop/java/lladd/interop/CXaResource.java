// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.util.ArrayList;
import java.util.List;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/**
 * A C switch as an XAResource. Both use the same numbers as flags. The switch returns errors, and
 * this class throws them. Each thread of control that has called xa_open has its own object.
 */
final class CXaResource implements XAResource {
    private static final int AT_ONCE = 16;
    private static final int FLAGS_OF_START = TMJOIN | TMRESUME;

    private final XaSwitch rm;
    private final int rmid;

    CXaResource(XaSwitch rm, int rmid) {
        this.rm = rm;
        this.rmid = rmid;
    }

    private static void check(int rc) throws XAException {
        if (rc != XA_OK) throw new XAException(rc);
    }

    @Override
    public void start(Xid xid, int flags) throws XAException {
        if ((flags & ~FLAGS_OF_START) != 0) throw new XAException(XAException.XAER_INVAL);
        check(rm.start(xid, rmid, flags));
    }

    @Override
    public void end(Xid xid, int flags) throws XAException {
        check(rm.end(xid, rmid, flags));
    }

    @Override
    public int prepare(Xid xid) throws XAException {
        int rc = rm.prepare(xid, rmid);
        if (rc == XA_RDONLY) return rc;
        check(rc);
        return XA_OK;
    }

    @Override
    public void commit(Xid xid, boolean onePhase) throws XAException {
        check(rm.commit(xid, rmid, onePhase ? TMONEPHASE : TMNOFLAGS));
    }

    @Override
    public void rollback(Xid xid) throws XAException {
        int rc = rm.rollback(xid, rmid);
        // XA_RB* says that the branch has been rolled back, and why. Here this is no error.
        if (!XaSwitch.rolledBack(rc)) check(rc);
    }

    @Override
    public void forget(Xid xid) throws XAException {
        check(rm.forget(xid, rmid));
    }

    /** A scan in one call: XAResource has no parameter for the number of XIDs. */
    @Override
    public Xid[] recover(int flag) throws XAException {
        List<XidBytes> all = new ArrayList<>();
        if ((flag & TMSTARTRSCAN) == 0) return new Xid[0];
        int flags = TMSTARTRSCAN;
        int n;
        do {
            n = rm.recover(all, AT_ONCE, rmid, flags);
            if (n < 0) throw new XAException(n);
            flags = TMNOFLAGS;
        } while (n == AT_ONCE);
        n = rm.recover(all, AT_ONCE, rmid, TMENDRSCAN);
        if (n < 0) throw new XAException(n);
        return all.toArray(new Xid[0]);
    }

    @Override
    public boolean isSameRM(XAResource other) {
        return other instanceof CXaResource c && c.rm == rm && c.rmid == rmid;
    }

    /** The switch has no timeouts. */
    @Override
    public int getTransactionTimeout() {
        return 0;
    }

    @Override
    public boolean setTransactionTimeout(int seconds) {
        return false;
    }
}
