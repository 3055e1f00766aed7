// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/** A resource manager in a process of its own, which can be killed and started again. */
abstract class Server {
    static final long PATIENCE_MS = 600_000;

    final String name;
    final Path folder;
    private Process process;
    private Link link;

    Server(String name, Path folder) {
        this.name = name;
        this.folder = folder;
    }

    /** Returns the argument for Link.open. It is the same after every start. */
    abstract String where();

    /** Makes the accounts. Is called once. */
    abstract void create(int accounts, long balance) throws Exception;

    abstract ProcessBuilder command() throws Exception;

    /** Returns whether an administrator can decide a branch in doubt (and the outcome then be
     * forgotten). */
    boolean heuristics() {
        return false;
    }

    final boolean runs() {
        return process != null && process.isAlive();
    }

    /** Returns when the resource manager accepts connections; its recovery has ended by then. */
    final void start() throws Exception {
        long until = System.currentTimeMillis() + PATIENCE_MS;
        Exception why = null;
        while (System.currentTimeMillis() < until) {
            if (!runs()) {
                process = Java.start(command().redirectErrorStream(true)
                        .redirectOutput(ProcessBuilder.Redirect.appendTo(log().toFile())));
            }
            try {
                link();
                return;
            } catch (Exception e) {
                why = e;
            }
            process.waitFor(10, TimeUnit.MILLISECONDS);
        }
        throw new IOException(name + " does not start; see " + log(), why);
    }

    final Path log() {
        return folder.resolve(name + ".log");
    }

    /** Returns a connection that reads the accounts from outside any branch. */
    final Link link() throws Exception {
        if (link == null) link = Link.open(where());
        return link;
    }

    /** Kills the process and its children. */
    final void kill() throws IOException {
        if (link != null) link.close();
        link = null;
        if (process == null) return;
        Java.kill(process.toHandle());
        process = null;
    }
}
