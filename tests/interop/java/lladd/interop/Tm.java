// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The driver's side of a Manager: its process, its announcements, and its death. */
final class Tm {
    /** An announcement of the transaction manager. rc is the result of the call in an "after". */
    record Event(String when, String what, String who, String xid, int rc) {
        static Event parse(String line) {
            String[] w = line.split(" ");
            return new Event(w[1], w[2], w[3], w[4], w.length > 5 ? Integer.parseInt(w[5]) : 0);
        }

        @Override
        public String toString() {
            return who + "." + what + "." + when + ("after".equals(when) ? "=" + rc : "");
        }
    }

    /** What to do at an event before the transaction manager goes on. */
    interface Listener {
        void on(Event event) throws Exception;
    }

    /** The answer of a Manager that has died. */
    static final String DEAD = "DEAD";

    private final Process process;
    private final PrintStream out;
    private final BlockingQueue<String> said = new LinkedBlockingQueue<>();

    /** Starts a Manager. This takes time, so the command "open" is sent only when the Manager is
     * needed. */
    Tm(Path log, String... resourceManagers) throws IOException {
        process = Java.start(Java.program(Manager.class, resourceManagers)
                .redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())));
        out = new PrintStream(process.getOutputStream(), true);
        BufferedReader in = new BufferedReader(new InputStreamReader(process.getInputStream()));
        Thread reader = new Thread(() -> {
            try {
                String line;
                while ((line = in.readLine()) != null) said.add(line);
            } catch (IOException e) {
                // The Manager's end of the pipe is gone, so the Manager is dead.
            }
            said.add(DEAD);
        });
        reader.setDaemon(true);
        reader.start();
    }

    boolean runs() {
        return process.isAlive();
    }

    void kill() throws IOException {
        Java.kill(process.toHandle());
    }

    /** Sends a command, and passes each event to the listener. Returns the answer, or DEAD. */
    String ask(String command, Listener listener) throws Exception {
        out.println(command);
        while (true) {
            String line = said.poll(Server.PATIENCE_MS, TimeUnit.MILLISECONDS);
            if (line == null) throw new IOException("the transaction manager hangs in " + command);
            if (!line.startsWith("EVENT ")) return line;
            listener.on(Event.parse(line));
            if (!runs()) return DEAD;
            out.println("GO");
        }
    }
}
