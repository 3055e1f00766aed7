// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean;
import com.arjuna.ats.arjuna.common.arjPropertyManager;
import com.arjuna.common.internal.util.propertyservice.BeanPopulator;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import jakarta.transaction.RollbackException;
import jakarta.transaction.Status;
import jakarta.transaction.Transaction;
import jakarta.transaction.TransactionManager;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;

/**
 * The transaction manager and LLADD in one virtual machine, with threads=any. Some transactions
 * take too long: Narayana's reaper ends them from a thread of its own. One transaction moves from
 * thread to thread. Prints a line for each case, as Driver does.
 *
 *     Timeouts LIBRARY
 */
final class Timeouts {
    private static final int RMID = 1;
    private static final int ACCOUNTS = 4;
    private static final long BALANCE = 100;
    private static final int SHORT_S = 1;
    private static final int LONG_S = 3600;
    private static final int TAKEN = -106; // LLADD_TAKEN

    private interface Case {
        void run() throws Exception;
    }

    private static NativeLibrary library;
    private static XaSwitch rm;
    private static Pointer accounts;
    private static TransactionManager tm;
    private static int failed;

    private Timeouts() {}

    public static void main(String[] args) throws Exception {
        Path folder = Files.createTempDirectory("lladd-interop-");
        open(args[0], folder);
        run("idle", Timeouts::idle);
        run("waits-for-a-lock", Timeouts::waitsForALock);
        run("works-on", Timeouts::worksOn);
        run("handed-over", Timeouts::handedOver);
        check(rm.close("", RMID) == 0, "xa_close");
        if (failed == 0) Fixture.remove(folder);
        System.out.flush();
        // Ends the process although Narayana's threads are still there.
        Runtime.getRuntime().halt(failed == 0 ? 0 : 1);
    }

    private static void open(String path, Path folder) throws Exception {
        for (String store : new String[] {null, "stateStore", "communicationStore"}) {
            ObjectStoreEnvironmentBean bean = store == null
                    ? arjPropertyManager.getObjectStoreEnvironmentBean()
                    : BeanPopulator.getNamedInstance(ObjectStoreEnvironmentBean.class, store);
            bean.setObjectStoreDir(folder.resolve("tm").toString());
        }
        arjPropertyManager.getCoreEnvironmentBean().setNodeIdentifier("timeouts");
        library = NativeLibrary.getInstance(path);
        rm = new XaSwitch(library, library.getFunction("accounts_switch").invokeString(
                new Object[0], false));
        String info = "dir=" + folder.resolve("db") + ";create=yes;threads=any";
        check(call("accounts_register", RMID, info) == 0, "accounts_register");
        check(rm.open(info, RMID) == 0, "xa_open");
        PointerByReference out = new PointerByReference();
        check(call("accounts_open", RMID, ACCOUNTS, BALANCE, out) == 0, "accounts_open");
        accounts = out.getValue();
        tm = com.arjuna.ats.jta.TransactionManager.transactionManager();
    }

    /* ---- cases ---- */

    /* The reaper finds the thread outside any call. */
    private static void idle() throws Exception {
        Transaction t = begin(SHORT_S);
        check(add(0, 1) == 0, "adding");
        untilReaped(t);
        gone(0);
        check(add(0, 1) != 0, "the thread still has a branch");
        notCommitted();
        commits(0);
        inAThread(() -> commits(0));
    }

    /* The thread waits for a lock that another transaction keeps until after the timeout. */
    private static void waitsForALock() throws Exception {
        CountDownLatch locked = new CountDownLatch(1);
        CountDownLatch over = new CountDownLatch(1);
        FutureTask<Void> keeper = new FutureTask<>(() -> {
            begin(LONG_S);
            check(add(1, 1) == 0, "adding");
            locked.countDown();
            over.await();
            tm.rollback();
            return null;
        });
        new Thread(keeper).start();
        locked.await();
        Transaction t = begin(SHORT_S);
        check(add(2, 1) == 0, "adding");
        check(add(1, 1) == TAKEN, "the wait for a lock did not end as it should");
        untilReaped(t);
        gone(2);
        notCommitted();
        over.countDown();
        keeper.get();
        commits(1);
    }

    /* The thread makes one call after the other. */
    private static void worksOn() throws Exception {
        Transaction t = begin(SHORT_S);
        int rc;
        do {
            rc = add(3, 1);
        } while (rc == 0);
        untilReaped(t);
        gone(3);
        notCommitted();
        commits(3);
    }

    private static void handedOver() throws Exception {
        begin(LONG_S);
        check(add(0, 1) == 0, "adding");
        Transaction t = tm.suspend();
        inAThread(() -> {
            tm.resume(t);
            tm.commit();
        });
        check(locked(0) == 0, "a lock is left");
        check(balance(0) == BALANCE + 1, "the sum is wrong");
    }

    /* ---- parts ---- */

    private static Transaction begin(int seconds) throws Exception {
        tm.setTransactionTimeout(seconds);
        tm.begin();
        Transaction t = tm.getTransaction();
        check(t.enlistResource(new CXaResource(rm, RMID)), "LLADD does not take part");
        return t;
    }

    /* Waits without limit until the rollback has ended. */
    private static void untilReaped(Transaction t) throws Exception {
        while (t.getStatus() != Status.STATUS_ROLLEDBACK) Thread.onSpinWait();
    }

    private static void gone(int account) {
        check(locked(account) == 0, "account " + account + " is still locked");
        check(balance(account) == BALANCE, "account " + account + " was changed");
    }

    private static void notCommitted() throws Exception {
        try {
            tm.commit();
            check(false, "what was rolled back was committed");
        } catch (RollbackException e) {
            check(tm.getTransaction() == null, "the thread still has a transaction");
        }
    }

    /* Commits the next transactions of a thread, on the same account. */
    private static void commits(int account) throws Exception {
        for (int delta : new int[] {1, -1}) {
            begin(LONG_S);
            check(add(account, delta) == 0, "adding afterwards");
            tm.commit();
        }
        gone(account);
    }

    private static void inAThread(Case what) throws Exception {
        FutureTask<Void> task = new FutureTask<>(() -> {
            what.run();
            return null;
        });
        new Thread(task).start();
        task.get();
    }

    private static int add(int account, long delta) {
        return call("accounts_add", accounts, account, delta);
    }

    private static int locked(int account) {
        return call("accounts_locked", accounts, account);
    }

    private static long balance(int account) {
        LongByReference out = new LongByReference();
        check(call("accounts_read", accounts, account, out) == 0, "reading");
        return out.getValue();
    }

    private static int call(String function, Object... args) {
        return library.getFunction(function).invokeInt(args);
    }

    private static void check(boolean ok, String what) {
        if (!ok) throw new IllegalStateException(what);
    }

    private static void run(String name, Case what) {
        long began = System.nanoTime();
        try {
            what.run();
            System.out.printf("pass lladd-jvm/%s: %.1f s%n", name,
                    (System.nanoTime() - began) / 1e9);
        } catch (Exception e) {
            failed++;
            System.out.printf("FAIL lladd-jvm/%s: %s%n", name, e);
        }
    }
}
