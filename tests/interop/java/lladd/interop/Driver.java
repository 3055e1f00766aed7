// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;

/**
 * Goes through the crash points, and prints a line for each: "pass NAME ..." or "FAIL NAME: why".
 * The exit status is 0 if all have passed.
 *
 *     Driver PAIR short|full|POINT[/POINT]
 *
 * PAIR names A and B: "postgres-postgres", "lladd-postgres", "bdb-postgres". POINT has the form of
 * Point. The second POINT is a crash in the recovery from the first.
 */
public final class Driver {
    /** If a case takes longer, all its processes are killed, and it fails. */
    private static final long HUNG_MS = 1_800_000;

    private record Case(Point point, Point again) {
        @Override
        public String toString() {
            return again == null ? point.toString() : point + "/" + again;
        }
    }

    private final String pair;
    private Fixture fixture;
    private boolean quiet; // the cases without a crash have passed
    private int failed;
    private int count;

    private Driver(String pair) {
        this.pair = pair;
    }

    public static void main(String[] args) throws Exception {
        Driver d = new Driver(args[0]);
        d.open();
        d.quietly();
        boolean heuristics = d.fixture.server("A").heuristics();
        if (heuristics) d.variants();
        for (Case c : cases(args[1], heuristics)) d.one(c);
        // The last case, because the transaction manager keeps a record of it, which would disturb
        // other cases.
        if (heuristics && d.fixture != null) d.variant("mixed", () -> d.fixture.mixed(3, 6));
        if (d.fixture != null) {
            d.fixture.close();
            if (d.failed == 0 || d.quiet) Fixture.remove(d.fixture.folder());
        }
        System.exit(d.failed == 0 && d.count > 0 ? 0 : 1);
    }

    private void open() throws Exception {
        Path folder = Files.createTempDirectory("lladd-interop-",
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx--x--x")));
        String[] kind = pair.split("-");
        fixture = new Fixture(folder, server("A", kind[0], folder), server("B", kind[1], folder));
    }

    private static Server server(String name, String kind, Path folder) throws Exception {
        if (kind.equals("postgres")) return new Postgres(name, folder);
        String library = System.getProperty("lladd.accounts") + "/libaccounts-" + kind + ".so";
        if (!Files.exists(Path.of(library))) throw new java.io.IOException("no " + library);
        return new HostServer(name, folder, switch (kind) {
            case "lladd" -> new HostServer.Kind(library, "dir=%s;create=yes", true);
            default -> new HostServer.Kind(library, "%s", false);
        });
    }

    /* ---- the points ---- */

    private static List<Case> cases(String form, boolean heuristics) {
        if (!form.equals("short") && !form.equals("full")) {
            String[] part = form.split("/");
            return List.of(new Case(Point.parse(part[0]),
                    part.length > 1 ? Point.parse(part[1]) : null));
        }
        List<Case> all = new ArrayList<>();
        int i = 0;
        for (String[] place : places(heuristics)) {
            for (Set<String> victims : Point.whoDies()) {
                // The short form takes one set of victims for each place, and another one for the
                // next place.
                if (form.equals("full") || i % SHORT_EVERY == i / SHORT_EVERY % SHORT_EVERY) {
                    all.add(new Case(new Point(place[0], place[1], place[2], victims), null));
                }
                i++;
            }
        }
        all.addAll(again(form));
        return all;
    }

    private static final int SHORT_EVERY = 6; // the number of sets of victims

    private static List<String[]> places(boolean heuristics) {
        List<String[]> all = new ArrayList<>();
        for (String when : new String[] {"before", "after"}) {
            for (String who : new String[] {"A", "B"}) {
                for (String what : new String[] {"start", "end", "prepare", "commit"}) {
                    all.add(new String[] {who, what, when});
                }
            }
            all.add(new String[] {"tm", "decision", when});
            if (heuristics) all.add(new String[] {"A", "forget", when});
        }
        return all;
    }

    /* The transaction manager dies when both have prepared, before or after its decision. Then a
     * process dies in the recovery from that. */
    private static List<Case> again(String form) {
        List<Case> all = new ArrayList<>();
        int i = 0;
        for (String when : new String[] {"before", "after"}) {
            Point first = new Point("tm", "decision", when, Set.of("tm"));
            String what = when.equals("before") ? "rollback" : "commit";
            for (String who : new String[] {"A", "B"}) {
                for (String then : new String[] {"before", "after"}) {
                    for (Set<String> victims : Point.whoDies()) {
                        if (form.equals("full") || i % 12 == 7) {
                            all.add(new Case(first, new Point(who, what, then, victims)));
                        }
                        i++;
                    }
                }
            }
        }
        return all;
    }

    /* ---- running them ---- */

    private void quietly() throws Exception {
        long began = System.nanoTime();
        String told = fixture.undisturbed(0, 5, "A B");
        fixture.moved(0, -5, 5);
        report("two-phase", told.equals("RESULT COMMITTED") ? null : told, began);
        told = fixture.undisturbed(1, 3, "A");
        fixture.moved(1, -3, 0);
        String undo = fixture.undisturbed(1, -3, "A");
        fixture.moved(1, 3, 0);
        boolean ok = told.equals("RESULT COMMITTED") && undo.equals(told);
        report("one-phase", ok ? null : told + " " + undo, began);
        try {
            fixture.check();
        } catch (Fixture.Broken e) {
            report("balances", e.getMessage(), began);
        }
        quiet = failed == 0;
    }

    private interface Variant {
        void run() throws Exception;
    }

    private void variant(String name, Variant what) {
        long began = System.nanoTime();
        try {
            what.run();
            report(name, null, began);
        } catch (Exception e) {
            report(name, e + ";" + fixture.story() + "; " + fixture.folder(), began);
        }
    }

    /* What LLADD can do and PostgreSQL cannot: branches that are suspended and joined, and
     * heuristic outcomes. */
    private void variants() {
        variant("suspend", () -> fixture.inSteps("suspend", 2, 4));
        variant("join", () -> fixture.inSteps("join", 2, 4));
        variant("heuristic", () -> fixture.heardInTime(3, 6));
        quiet = failed == 0;
    }

    private void one(Case c) throws Exception {
        if (fixture == null) open();
        long began = System.nanoTime();
        String why = null;
        Timer hung = new Timer(true);
        hung.schedule(new TimerTask() {
            @Override
            public void run() {
                Java.killAll();
            }
        }, HUNG_MS);
        try {
            fixture.run(c.point, c.again);
        } catch (Fixture.Broken | java.io.IOException | java.sql.SQLException
                | javax.transaction.xa.XAException e) {
            why = e + ";" + fixture.story() + "; " + fixture.folder();
        } finally {
            hung.cancel();
        }
        report(c.toString(), why, began);
        if (why != null) {
            // The files of this case are kept, and must not disturb the other cases.
            fixture.close();
            fixture = null;
        }
    }

    private void report(String name, String why, long began) {
        count++;
        double seconds = (System.nanoTime() - began) / 1e9;
        if (why == null) {
            System.out.printf("pass %s/%s: %.1f s%n", pair, name, seconds);
        } else {
            failed++;
            System.out.printf("FAIL %s/%s: %s%n", pair, name, why);
        }
    }
}
