// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;

/**
 * Announces the next action of the transaction manager to the driver, and waits for permission to
 * go on. Before that, the driver may kill processes, even this one. Each message is one line.
 */
final class Watch {
    private final BufferedReader in;
    private final PrintStream out;

    Watch(BufferedReader in, PrintStream out) {
        this.in = in;
        this.out = out;
    }

    void event(String when, String what, String who, String xid) {
        out.println("EVENT " + when + " " + what + " " + who + " " + xid);
        try {
            if (!"GO".equals(in.readLine())) throw new IOException("the driver is gone");
        } catch (IOException e) {
            Runtime.getRuntime().halt(1);
        }
    }
}
