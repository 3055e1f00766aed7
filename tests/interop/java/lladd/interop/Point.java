// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** An event, and the processes that die at that event: "A.prepare.after=tm+B",
 * "tm.decision.before=A". */
record Point(String who, String what, String when, Set<String> victims) {
    static Point parse(String text) {
        String[] part = text.split("[.=]");
        return new Point(part[0], part[1], part[2], new TreeSet<>(List.of(part[3].split("\\+"))));
    }

    boolean is(Tm.Event e) {
        return e.who().equals(who) && e.what().equals(what) && e.when().equals(when);
    }

    @Override
    public String toString() {
        return who + "." + what + "." + when + "=" + String.join("+", victims);
    }

    /** Returns the sets of processes to kill: each process alone, and each pair. */
    static List<Set<String>> whoDies() {
        List<Set<String>> all = new ArrayList<>();
        String[] names = {"tm", "A", "B"};
        for (String name : names) all.add(Set.of(name));
        for (int i = 0; i < names.length; i++) {
            for (int j = i + 1; j < names.length; j++) {
                all.add(new TreeSet<>(List.of(names[i], names[j])));
            }
        }
        return all;
    }
}
