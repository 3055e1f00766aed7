// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean;
import com.arjuna.ats.arjuna.common.RecoveryEnvironmentBean;
import com.arjuna.ats.arjuna.common.arjPropertyManager;
import com.arjuna.ats.arjuna.common.recoveryPropertyManager;
import com.arjuna.ats.arjuna.recovery.RecoveryManager;
import com.arjuna.ats.internal.arjuna.recovery.AtomicActionRecoveryModule;
import com.arjuna.ats.internal.jta.recovery.arjunacore.JTANodeNameXAResourceOrphanFilter;
import com.arjuna.ats.internal.jta.recovery.arjunacore.JTATransactionLogXAResourceOrphanFilter;
import com.arjuna.ats.internal.jta.recovery.arjunacore.XARecoveryModule;
import com.arjuna.ats.jta.common.JTAEnvironmentBean;
import com.arjuna.ats.jta.common.jtaPropertyManager;
import com.arjuna.ats.jta.recovery.XAResourceRecoveryHelper;
import com.arjuna.common.internal.util.propertyservice.BeanPopulator;
import jakarta.transaction.HeuristicMixedException;
import jakarta.transaction.HeuristicRollbackException;
import jakarta.transaction.RollbackException;
import jakarta.transaction.Transaction;
import jakarta.transaction.TransactionManager;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.transaction.xa.XAResource;

/**
 * The process of the transaction manager, Narayana. It reads commands from its standard input.
 *
 *     Manager NAME=WHERE...                  the resource managers; WHERE as for Link.open
 *
 *     open FOLDER                            Narayana's log; READY
 *     transfer ACCOUNT AMOUNT NAME...        from the first to each of the others; RESULT ...
 *     suspend|join ACCOUNT AMOUNT NAME...    the same, but the first resource manager does its part in
 *                                            two steps: on one connection, suspended and resumed,
 *                                            or on two, of which the second joins the branch
 *     scan                                   one recovery scan; SCANNED
 */
final class Manager {
    private static final String NODE = "interop";
    private static final int TIMEOUT_S = 3600;

    private final Map<String, String> where = new LinkedHashMap<>();
    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    private final PrintStream out = System.out;
    private final Watch watch = new Watch(in, out);
    private final List<Link> scanned = new ArrayList<>();
    private TransactionManager tm;
    private RecoveryManager recovery;

    public static void main(String[] args) throws Exception {
        Manager m = new Manager();
        for (String arg : args) {
            String[] part = arg.split("=", 2);
            m.where.put(part[0], part[1]);
        }
        m.serve();
    }

    private void serve() throws Exception {
        String line;
        while ((line = in.readLine()) != null) {
            String[] word = line.split(" ");
            switch (word[0]) {
                case "open" -> {
                    open(word[1]);
                    out.println("READY");
                }
                case "transfer", "suspend", "join" -> out.println("RESULT " + transfer(word[0],
                        Integer.parseInt(word[1]), Long.parseLong(word[2]),
                        List.of(word).subList(3, word.length)));
                case "scan" -> {
                    scan();
                    out.println("SCANNED");
                }
                default -> throw new IOException("\"" + line + "\" is no command");
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private void open(String folder) throws Exception {
        for (String store : new String[] {null, "stateStore", "communicationStore"}) {
            ObjectStoreEnvironmentBean bean = store == null
                    ? arjPropertyManager.getObjectStoreEnvironmentBean()
                    : BeanPopulator.getNamedInstance(ObjectStoreEnvironmentBean.class, store);
            bean.setObjectStoreDir(folder);
            bean.setObjectStoreType(DecisionStore.class.getName());
        }
        DecisionStore.tell(watch);
        arjPropertyManager.getCoreEnvironmentBean().setNodeIdentifier(NODE);
        arjPropertyManager.getCoordinatorEnvironmentBean().setDefaultTimeout(TIMEOUT_S);
        arjPropertyManager.getCoordinatorEnvironmentBean().setTransactionStatusManagerEnable(false);

        // Narayana scans on request only. No transaction runs during a scan, so a branch that is
        // not in Narayana's log can be rolled back at once. The pause between the two passes of a
        // scan is a second, the shortest possible.
        RecoveryEnvironmentBean r = recoveryPropertyManager.getRecoveryEnvironmentBean();
        r.setRecoveryModuleClassNames(List.of(AtomicActionRecoveryModule.class.getName(),
                XARecoveryModule.class.getName()));
        r.setRecoveryBackoffPeriod(1);
        r.setRecoveryListener(false);
        JTAEnvironmentBean j = jtaPropertyManager.getJTAEnvironmentBean();
        j.setXaRecoveryNodes(List.of(NODE));
        j.setOrphanSafetyInterval(0);
        j.setXaResourceOrphanFilterClassNames(
                List.of(JTATransactionLogXAResourceOrphanFilter.class.getName(),
                        JTANodeNameXAResourceOrphanFilter.class.getName()));

        recovery = RecoveryManager.manager(RecoveryManager.DIRECT_MANAGEMENT);
        recovery.initialize();
        XARecoveryModule module = XARecoveryModule.getRegisteredXARecoveryModule();
        for (String name : where.keySet()) module.addXAResourceRecoveryHelper(helper(name));
        tm = com.arjuna.ats.jta.TransactionManager.transactionManager();
    }

    /* Opens a connection to the resource manager for each scan. A scan leaves out a resource manager
     * that does not answer. */
    private XAResourceRecoveryHelper helper(String name) {
        return new XAResourceRecoveryHelper() {
            @Override
            public boolean initialise(String ignored) {
                return true;
            }

            @Override
            public XAResource[] getXAResources() throws Exception {
                Link link = Link.open(where.get(name));
                scanned.add(link);
                return new XAResource[] {new WatchedResource(name, link.xa(), watch)};
            }
        };
    }

    private void scan() {
        recovery.scan();
        for (Link link : scanned) link.close();
        scanned.clear();
    }

    private WatchedResource enlist(Transaction t, String name, Link link) throws Exception {
        WatchedResource resource = new WatchedResource(name, link.xa(), watch);
        if (!t.enlistResource(resource)) throw new IOException(name + " does not take part");
        return resource;
    }

    /* Enlists the resource manager again, for more work in its branch. Either the first connection
     * resumes the branch that it has suspended, or a second connection joins the branch. */
    private Link again(String how, Transaction t, String name, WatchedResource first, Link link)
            throws Exception {
        if (how.equals("suspend")) {
            if (!t.enlistResource(first)) throw new IOException(name + " does not resume");
            return link;
        }
        Link other = Link.open(where.get(name));
        enlist(t, name, other);
        return other;
    }

    private String transfer(String how, int account, long amount, List<String> names) {
        List<Link> links = new ArrayList<>();
        try {
            for (String name : names) links.add(Link.open(where.get(name)));
            tm.begin();
            try {
                Transaction t = tm.getTransaction();
                long later = how.equals("transfer") ? 0 : 1;
                WatchedResource first = enlist(t, names.get(0), links.get(0));
                links.get(0).add(account, -amount + later);
                if (later != 0) {
                    t.delistResource(first, how.equals("suspend") ? XAResource.TMSUSPEND
                            : XAResource.TMSUCCESS);
                }
                for (int i = 1; i < names.size(); i++) {
                    enlist(t, names.get(i), links.get(i));
                    links.get(i).add(account, amount);
                }
                if (later != 0) {
                    Link link = again(how, t, names.get(0), first, links.get(0));
                    if (link != links.get(0)) links.add(link);
                    link.add(account, -later);
                }
            } catch (Exception e) {
                tm.rollback();
                return "ABORTED " + e;
            }
            tm.commit();
            return "COMMITTED";
        } catch (RollbackException | HeuristicRollbackException e) {
            return "ABORTED " + e;
        } catch (HeuristicMixedException e) {
            return "MIXED " + e;
        } catch (Exception e) {
            return "UNKNOWN " + e;
        } finally {
            for (Link link : links) link.close();
        }
    }
}
