// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.jboss.tm.XAResourceWrapper;

/**
 * A resource manager as the transaction manager calls it. Each call about a branch is announced,
 * before and after. The resource manager has a name. By the name, recovery knows whether a resource
 * manager was asked and does not have the branch (so it has finished the branch), or could not be
 * asked.
 */
final class WatchedResource implements XAResource, XAResourceWrapper {
    private interface Work {
        int run() throws XAException;
    }

    private final String name;
    private final XAResource inside;
    private final Watch watch;

    WatchedResource(String name, XAResource inside, Watch watch) {
        this.name = name;
        this.inside = inside;
        this.watch = watch;
    }

    /* "after" has the result, because a branch is promised only if prepare has returned XA_OK. */
    private int watched(String what, Xid xid, Work work) throws XAException {
        String bytes = XidBytes.of(xid).toString();
        watch.event("before", what, name, bytes);
        try {
            int rc = work.run();
            watch.event("after", what, name, bytes + " " + rc);
            return rc;
        } catch (XAException e) {
            watch.event("after", what, name, bytes + " " + e.errorCode);
            throw e;
        }
    }

    @Override
    public void start(Xid xid, int flags) throws XAException {
        String what = flags == TMJOIN ? "join" : flags == TMRESUME ? "resume" : "start";
        watched(what, xid, () -> {
            inside.start(xid, flags);
            return XA_OK;
        });
    }

    @Override
    public void end(Xid xid, int flags) throws XAException {
        watched(flags == TMSUSPEND ? "suspend" : "end", xid, () -> {
            inside.end(xid, flags);
            return XA_OK;
        });
    }

    @Override
    public int prepare(Xid xid) throws XAException {
        return watched("prepare", xid, () -> inside.prepare(xid));
    }

    @Override
    public void commit(Xid xid, boolean onePhase) throws XAException {
        watched("commit", xid, () -> {
            inside.commit(xid, onePhase);
            return XA_OK;
        });
    }

    @Override
    public void rollback(Xid xid) throws XAException {
        watched("rollback", xid, () -> {
            inside.rollback(xid);
            return XA_OK;
        });
    }

    @Override
    public void forget(Xid xid) throws XAException {
        watched("forget", xid, () -> {
            inside.forget(xid);
            return XA_OK;
        });
    }

    @Override
    public Xid[] recover(int flag) throws XAException {
        return inside.recover(flag);
    }

    @Override
    public boolean isSameRM(XAResource other) throws XAException {
        return other instanceof WatchedResource w && w.name.equals(name)
                && inside.isSameRM(w.inside);
    }

    @Override
    public int getTransactionTimeout() throws XAException {
        return inside.getTransactionTimeout();
    }

    @Override
    public boolean setTransactionTimeout(int seconds) throws XAException {
        return inside.setTransactionTimeout(seconds);
    }

    @Override
    public XAResource getResource() {
        return inside;
    }

    @Override
    public String getProductName() {
        return name;
    }

    @Override
    public String getProductVersion() {
        return "1";
    }

    @Override
    public String getJndiName() {
        return name;
    }
}
