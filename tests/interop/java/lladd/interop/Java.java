// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Starts and kills processes, among them Java virtual machines with options for a fast start. */
final class Java {
    private Java() {}

    private static final Set<ProcessHandle> CHILDREN = ConcurrentHashMap.newKeySet();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(Java::end));
    }

    private static boolean ending;

    /** Kills all processes. A thread that waits for one of them then gets an error. */
    static synchronized void killAll() {
        for (ProcessHandle p : CHILDREN) {
            try {
                kill(p);
            } catch (IOException e) {
                System.err.println(p.pid() + " is left: " + e);
            }
        }
    }

    private static synchronized void end() {
        ending = true;
        killAll();
    }

    /** Starts a process that ends with this virtual machine, unless SIGKILL ends the virtual
     * machine. */
    static synchronized Process start(ProcessBuilder command) throws IOException {
        if (ending) throw new IOException("the program is ending: no process is started");
        Process p = command.start();
        CHILDREN.add(p.toHandle());
        return p;
    }

    /**
     * Kills a process and its descendants at once. They are stopped first, so that they cannot send
     * anything. Otherwise PostgreSQL would have time to tell its clients that it ends.
     */
    static void kill(ProcessHandle process) throws IOException {
        List<ProcessHandle> all = new ArrayList<>();
        signal("-STOP", List.of(process));
        process.descendants().forEach(all::add);
        all.add(process);
        signal("-KILL", all);
        for (ProcessHandle p : all) {
            while (p.isAlive()) Thread.onSpinWait();
        }
        CHILDREN.remove(process);
    }

    /* If a process has died meanwhile, that is no error. */
    private static void signal(String what, List<ProcessHandle> to) throws IOException {
        List<String> command = new ArrayList<>(List.of("kill", what));
        for (ProcessHandle p : to) command.add("" + p.pid());
        new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).start().onExit().join();
    }

    /** The command of a virtual machine that runs `main`; for start. */
    static ProcessBuilder program(Class<?> main, String... args) {
        List<String> command = new ArrayList<>(List.of(
                System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC", "-Xmx256m", "-Xshare:auto",
                "-Djava.util.logging.config.file=" + System.getProperty("lladd.logging"),
                "-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(args));
        return new ProcessBuilder(command);
    }
}
