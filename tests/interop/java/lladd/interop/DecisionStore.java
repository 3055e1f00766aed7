// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean;
import com.arjuna.ats.arjuna.common.Uid;
import com.arjuna.ats.arjuna.exceptions.ObjectStoreException;
import com.arjuna.ats.arjuna.state.OutputObjectState;
import com.arjuna.ats.internal.arjuna.objectstore.ShadowNoFileLockStore;

/**
 * Narayana's default object store, with announcements before and after one write: the decision,
 * which writes the state of a transaction with all participants prepared as committed. The store's
 * class is a matter of configuration, so Narayana itself is not changed.
 */
public final class DecisionStore extends ShadowNoFileLockStore {
    private static final String TRANSACTION = "/TwoPhaseCoordinator/AtomicAction";
    private static volatile Watch watch;

    public DecisionStore(ObjectStoreEnvironmentBean bean) throws ObjectStoreException {
        super(bean);
    }

    static void tell(Watch to) {
        watch = to;
    }

    @Override
    public boolean write_committed(Uid uid, String type, OutputObjectState state)
            throws ObjectStoreException {
        if (!type.endsWith(TRANSACTION)) return super.write_committed(uid, type, state);
        watch.event("before", "decision", "tm", "-");
        boolean done = super.write_committed(uid, type, state);
        watch.event("after", "decision", "tm", done ? "- 0" : "- 1");
        return done;
    }
}
