// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/**
 * The fixture: a transaction manager, and two resource managers, A and B, with the same accounts. A
 * transfer takes an amount from an account of one resource manager, and adds it to an account of
 * the other. The fixture knows what every balance must be.
 */
final class Fixture {
    static final int ACCOUNTS = 40;
    static final long BALANCE = 1000;
    private static final int SCANS = 3;
    private static final long BLOCKED_MS = 600_000;

    /** A broken promise. */
    static final class Broken extends Exception {
        private static final long serialVersionUID = 1;

        Broken(String what) {
            super(what);
        }
    }

    /** The outcome of a transfer. */
    enum Outcome { COMMIT, ABORT, EITHER }

    private final Path folder;
    private final Map<String, Server> servers = new LinkedHashMap<>();
    private final Map<String, long[]> balances = new HashMap<>();
    private final List<Tm.Event> history = new ArrayList<>();
    private final Set<XidBytes> decided = new HashSet<>();
    private final Set<XidBytes> committed = new HashSet<>();
    private final Map<XidBytes, Integer> accountOf = new HashMap<>();
    private Tm tm;
    private Tm spare;
    private int turn;
    private int account;

    Fixture(Path folder, Server a, Server b) throws Exception {
        this.folder = folder;
        for (Server s : List.of(a, b)) {
            servers.put(s.name, s);
            s.create(ACCOUNTS, BALANCE);
            long[] all = new long[ACCOUNTS];
            java.util.Arrays.fill(all, BALANCE);
            balances.put(s.name, all);
        }
        startManager();
    }

    Server server(String name) {
        return servers.get(name);
    }

    /** The events of the last run, to find the cause of a failure. */
    String story() {
        StringBuilder s = new StringBuilder();
        for (Tm.Event e : history) s.append(' ').append(e);
        return s.toString();
    }

    private Tm newManager() throws IOException {
        return new Tm(folder.resolve("tm.log"),
                servers.values().stream().map(s -> s.name + "=" + s.where()).toArray(String[]::new));
    }

    private void startManager() throws Exception {
        if (tm != null && tm.runs()) return;
        tm = spare == null ? newManager() : spare;
        expect("READY", tm.ask("open " + folder.resolve("tm"), e -> {}));
        spare = newManager();
    }

    private static void expect(String what, String answer) throws IOException {
        if (!what.equals(answer)) throw new IOException("the transaction manager: " + answer);
    }

    private void kill(Set<String> victims) throws Exception {
        // Kills the transaction manager first, so that it does not see the others die.
        if (victims.contains("tm")) tm.kill();
        for (Server s : servers.values()) {
            if (victims.contains(s.name)) s.kill();
        }
    }

    private void note(Tm.Event e) {
        history.add(e);
        if (e.what().equals("start")) {
            accountOf.put(XidBytes.parse(e.xid()), account);
        } else if (e.what().equals("commit") && e.when().equals("after")
                && e.rc() == XAResource.XA_OK) {
            committed.add(XidBytes.parse(e.xid()));
        }
    }

    /* Kills at a point, once, and records all events. */
    private final class Executioner implements Tm.Listener {
        private final Point point;
        private final boolean heuristic;
        private boolean done;

        Executioner(Point point, boolean heuristic) {
            this.point = point;
            this.heuristic = heuristic;
        }

        @Override
        public void on(Tm.Event e) throws Exception {
            note(e);
            if (heuristic && e.what().equals("commit") && e.when().equals("before")
                    && server(e.who()).heuristics()) {
                XidBytes xid = XidBytes.parse(e.xid());
                server(e.who()).link().decide(xid, true);
                decided.add(xid);
            }
            if (point != null && !done && point.is(e)) {
                done = true;
                kill(point.victims());
            }
        }
    }

    /**
     * Makes one transfer with a crash in it, restarts the processes that died, and lets them
     * recover, with a second crash in the recovery if `again` is not null. Checks everything that
     * must hold.
     */
    void run(Point point, Point again) throws Exception {
        account = turn++ % ACCOUNTS;
        long amount = 1 + turn % 7;
        boolean heuristic = point != null && point.what().equals("forget");
        history.clear();
        Executioner first = new Executioner(point, heuristic);
        String told = tm.ask("transfer " + account + " " + amount + " A B", first);
        Outcome outcome = outcome(told);
        if (heuristic) {
            // Narayana takes "committed, heuristically" for committed, and forgets the branch when
            // the next scan finds it.
            tm.ask("scan", first);
        }
        if (point != null && !first.done) throw new Broken("never came to " + point);
        restart();
        if (again != null) {
            Executioner second = new Executioner(again, false);
            startManager();
            tm.ask("scan", second);
            if (!second.done) throw new Broken("never came to " + again + " in recovery");
            restart();
        }
        startManager();
        recover();
        settle(account, amount, outcome);
    }

    /** Makes a transfer without any crash, from the first of the named resource managers to the
     * others. */
    String undisturbed(int account, long amount, String names) throws Exception {
        history.clear();
        return tm.ask("transfer " + account + " " + amount + " " + names, new Executioner(null, false));
    }

    /** Makes a transfer in which A does its part in two steps ("suspend" or "join", see
     * Manager). */
    void inSteps(String how, int account, long amount) throws Exception {
        history.clear();
        String told = tm.ask(how + " " + account + " " + amount + " A B",
                new Executioner(null, false));
        String step = how.equals("suspend") ? "resume" : "join";
        if (!told.equals("RESULT COMMITTED")) throw new Broken(told);
        if (!happened(step, "after")) throw new Broken("there was no " + step);
        moved(account, -amount, amount);
        check();
    }

    /* Makes a transfer from the first to the second. When both have prepared, and A is about to be
     * told to commit, an administrator rolls A's branch back. */
    private String overruled(int account, long amount, String names) throws Exception {
        history.clear();
        return tm.ask("transfer " + account + " " + amount + " " + names, e -> {
            note(e);
            if (e.who().equals("A") && e.what().equals("commit") && e.when().equals("before")) {
                server("A").link().decide(XidBytes.parse(e.xid()), false);
            }
        });
    }

    /** A is asked first. So the transaction manager learns in time that A has rolled back, and
     * rolls B back as well. */
    void heardInTime(int account, long amount) throws Exception {
        String told = overruled(account, amount, "A B");
        if (!told.startsWith("RESULT ABORTED")) throw new Broken("not rolled back: " + told);
        if (!happened("forget", "after")) throw new Broken("A was not told to forget it");
        nothingRemains(account);
        check();
    }

    /**
     * B has committed before A says that its branch was rolled back. The transaction manager must
     * report a mixed outcome. A must remember its outcome, even after its process was killed, until
     * it is told to forget the outcome.
     */
    void mixed(int account, long amount) throws Exception {
        String told = overruled(account, amount, "B A");
        if (!told.startsWith("RESULT MIXED")) throw new Broken("not mixed: " + told);
        server("A").kill();
        server("A").start();
        XAResource a = server("A").link().xa();
        Set<XidBytes> remembered = inDoubt(server("A"));
        if (remembered.size() != 1) throw new Broken("A remembers " + remembered);
        XidBytes xid = remembered.iterator().next();
        if (accountOf.get(xid) == null) throw new Broken("A remembers " + xid + ", of no transfer");
        try {
            a.commit(xid, false);
            throw new Broken("A commits " + xid + ", which was rolled back");
        } catch (XAException e) {
            if (e.errorCode != XAException.XA_HEURRB) throw e;
        }
        a.forget(xid);
        nothingRemains(account);
        moved(account, 0, -amount);
        balances(); // check() would fail: a mixed outcome changes the sum
    }

    private void nothingRemains(int account) throws Exception {
        for (Server s : servers.values()) {
            unlocked(s, account);
            if (!inDoubt(s).isEmpty()) throw new Broken(s.name + " still has " + inDoubt(s));
        }
    }

    private boolean happened(String what, String when) {
        return history.stream().anyMatch(e -> e.what().equals(what) && e.when().equals(when));
    }

    /* The decision is durable once it is written, with any answers to the caller. */
    private Outcome outcome(String told) throws Broken {
        Outcome decided = happened("decision", "after") ? Outcome.COMMIT
                : happened("decision", "before") ? Outcome.EITHER : Outcome.ABORT;
        String word = told.replace("RESULT ", "").split(" ")[0];
        switch (word) {
            case "COMMITTED" -> {
                if (decided != Outcome.COMMIT) throw new Broken("committed without a decision");
            }
            case "ABORTED" -> {
                if (decided == Outcome.COMMIT) throw new Broken("decided, and then: " + told);
                return Outcome.ABORT;
            }
            case "MIXED" -> throw new Broken("heuristic outcome: " + told);
            case "UNKNOWN", Tm.DEAD -> {
                return decided;
            }
            default -> throw new Broken("the transaction manager: " + told);
        }
        return decided;
    }

    /* Restarts the processes that died. Each promised branch must be in doubt, with the same XID, and
     * its account must be locked. */
    private void restart() throws Exception {
        for (Server s : servers.values()) {
            s.start();
            Set<XidBytes> doubt = inDoubt(s);
            for (XidBytes xid : promised(s)) {
                if (!doubt.contains(xid)) {
                    throw new Broken(s.name + " has promised " + xid + " and has " + doubt);
                }
            }
            doubt.removeAll(decided); // a heuristic outcome is listed, and holds no lock
            for (XidBytes xid : doubt) stillOpen(s, xid);
        }
    }

    /* A branch that had been rolled back may be in doubt again: the record of the rollback need not
     * be forced, because the transaction manager would roll it back again (presumed abort). A branch
     * that had committed may not be in doubt. */
    private void stillOpen(Server s, XidBytes xid) throws Exception {
        Integer its = accountOf.get(xid);
        if (its == null) throw new Broken(s.name + " is in doubt about " + xid + ", of no transfer");
        if (committed.contains(xid)) {
            throw new Broken(s.name + " is in doubt about " + xid + ", which has committed");
        }
        if (!s.link().locked(its)) {
            throw new Broken(s.name + " is in doubt about " + xid + ", account " + its
                    + " is not locked");
        }
    }

    /* Returns the branches that reported a prepare and were not told an outcome yet. */
    private Set<XidBytes> promised(Server s) {
        Set<XidBytes> all = new HashSet<>();
        for (Tm.Event e : history) {
            if (!e.who().equals(s.name)) continue;
            if (e.what().equals("prepare") && e.when().equals("after")
                    && e.rc() == XAResource.XA_OK) {
                all.add(XidBytes.parse(e.xid()));
            } else if (e.what().equals("commit") || e.what().equals("rollback")) {
                all.remove(XidBytes.parse(e.xid()));
            }
        }
        return all;
    }

    private static Set<XidBytes> inDoubt(Server s) throws Exception {
        Set<XidBytes> all = new HashSet<>();
        for (Xid xid : s.link().xa().recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
            all.add(XidBytes.of(xid));
        }
        return all;
    }

    private boolean anyDoubt() throws Exception {
        for (Server s : servers.values()) {
            if (!inDoubt(s).isEmpty()) return true;
        }
        return false;
    }

    private void recover() throws Exception {
        Tm.Listener note = this::note;
        expect("SCANNED", tm.ask("scan", note));
        for (int i = 1; i < SCANS && anyDoubt(); i++) expect("SCANNED", tm.ask("scan", note));
        for (Server s : servers.values()) {
            Set<XidBytes> doubt = inDoubt(s);
            if (!doubt.isEmpty()) {
                throw new Broken(s.name + " is in doubt after " + SCANS + " scans: " + doubt);
            }
        }
    }

    /* Checks that both sides have the transfer or neither has it, as was decided, that the other
     * accounts are as they were, and that the account is not locked any more. */
    private void settle(int account, long amount, Outcome outcome) throws Exception {
        for (Server s : servers.values()) unlocked(s, account);
        long moved = balances.get("A")[account] - server("A").link().read(account);
        if (moved != 0 && moved != amount) throw new Broken("A has lost " + moved);
        if (outcome == Outcome.COMMIT && moved == 0) throw new Broken("decided, but not in A");
        if (outcome == Outcome.ABORT && moved != 0) throw new Broken("not decided, but in A");
        balances.get("A")[account] -= moved;
        balances.get("B")[account] += moved;
        check();
    }

    void check() throws Exception {
        long sum = balances();
        if (sum != 2 * ACCOUNTS * BALANCE) throw new Broken("the sum is " + sum);
    }

    private long balances() throws Exception {
        long sum = 0;
        for (Server s : servers.values()) {
            long[] want = balances.get(s.name);
            for (int i = 0; i < ACCOUNTS; i++) {
                long is = s.link().read(i);
                if (is != want[i]) {
                    throw new Broken(s.name + " has " + is + " on account " + i + ", not "
                            + want[i]);
                }
                sum += is;
            }
        }
        return sum;
    }

    void moved(int account, long a, long b) {
        balances.get("A")[account] += a;
        balances.get("B")[account] += b;
    }

    /* Waits until the account is not locked, because a session may take a moment to notice that its
     * client was killed. */
    private static void unlocked(Server s, int account) throws Exception {
        long until = System.currentTimeMillis() + BLOCKED_MS;
        while (s.link().locked(account)) {
            if (System.currentTimeMillis() > until) {
                throw new Broken(s.name + " still keeps account " + account + " locked");
            }
            Thread.onSpinWait();
        }
    }

    void close() throws IOException {
        if (tm != null) tm.kill();
        if (spare != null) spare.kill();
        for (Server s : servers.values()) s.kill();
    }

    /** For inspection after a failure. */
    Path folder() {
        return folder;
    }

    static void remove(Path folder) throws IOException {
        try (java.util.stream.Stream<Path> all = Files.walk(folder)) {
            for (Path p : all.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(p);
            }
        }
    }
}
