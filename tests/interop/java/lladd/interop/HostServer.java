// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A C resource manager with its accounts, in a Host. */
final class HostServer extends Server {
    /** The shared object with the accounts, and its open string, in which %s stands for the
     * folder. */
    record Kind(String library, String open, boolean heuristics) {}

    private final Kind kind;
    private final Path data;
    private final Path socket;
    private int accounts;
    private long balance;

    HostServer(String name, Path folder, Kind kind) {
        super(name, folder);
        this.kind = kind;
        data = folder.resolve(name);
        socket = folder.resolve(name + ".socket");
    }

    @Override
    String where() {
        return "host:" + socket;
    }

    @Override
    boolean heuristics() {
        return kind.heuristics;
    }

    @Override
    void create(int accounts, long balance) throws Exception {
        this.accounts = accounts;
        this.balance = balance;
        Files.createDirectories(data);
        start();
    }

    @Override
    ProcessBuilder command() throws IOException {
        // The socket of an earlier process would refuse connections. Without a socket the process
        // is not ready yet.
        Files.deleteIfExists(socket);
        return Java.program(Host.class, socket.toString(), kind.library,
                String.format(kind.open, data), "" + accounts, "" + balance);
    }
}
