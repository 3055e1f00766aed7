// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A PostgreSQL cluster of its own, on the loopback interface. */
final class Postgres extends Server {
    /** PostgreSQL refuses to run as root; Debian's packages make this user. */
    static final String USER = "postgres";

    private final Path data;
    private final int port;

    Postgres(String name, Path folder) throws IOException {
        super(name, folder);
        data = folder.resolve(name);
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
    }

    @Override
    String where() {
        return "postgres:" + port;
    }

    @Override
    void create(int accounts, long balance) throws Exception {
        Files.createDirectories(data);
        List<String> initdb = as(bin("initdb"), "-D", data.toString(), "-U", USER, "-A", "trust",
                "-E", "UTF8", "--locale=C", "--no-sync");
        if (root()) {
            run(List.of("chown", USER, data.toString()));
        }
        run(initdb);
        start();
        try (Statement s = ((PostgresLink) link()).sql().createStatement()) {
            s.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)");
            s.execute("INSERT INTO account SELECT i, " + balance + " FROM generate_series(0, "
                    + (accounts - 1) + ") i");
        }
    }

    /* Written bytes survive the death of a process even without fsync. Only the death of processes
     * is tested here. */
    @Override
    ProcessBuilder command() throws IOException {
        return new ProcessBuilder(as(bin("postgres"), "-D", data.toString(), "-p", "" + port,
                "-k", data.toString(), "-c", "listen_addresses=127.0.0.1",
                "-c", "max_prepared_transactions=20", "-c", "fsync=off",
                "-c", "shared_buffers=8MB", "-c", "autovacuum=off", "-c", "max_connections=30",
                "-c", "log_min_messages=warning", "-c", "max_wal_senders=0",
                "-c", "max_logical_replication_workers=0"));
    }

    private void run(List<String> command) throws IOException, InterruptedException {
        Process p = Java.start(new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(log().toFile())));
        if (p.waitFor() != 0) throw new IOException(command.get(0) + " failed; see " + log());
    }

    private static boolean root() {
        return "root".equals(System.getProperty("user.name"));
    }

    private static List<String> as(String... command) {
        List<String> all = new ArrayList<>();
        if (root()) {
            all.addAll(List.of("setpriv", "--reuid=" + USER, "--regid=" + USER, "--clear-groups"));
        }
        all.addAll(List.of(command));
        return all;
    }

    /** Debian keeps the server's programs outside the path, in a folder for each version. */
    private static String bin(String program) throws IOException {
        for (String folder : System.getenv("PATH").split(File.pathSeparator)) {
            if (Files.isExecutable(Path.of(folder, program))) return folder + "/" + program;
        }
        Path versions = Path.of("/usr/lib/postgresql");
        if (Files.isDirectory(versions)) {
            try (Stream<Path> all = Files.list(versions)) {
                return all.map(v -> v.resolve("bin").resolve(program)).filter(Files::isExecutable)
                        .sorted().reduce((a, b) -> b).map(Path::toString)
                        .orElseThrow(() -> new IOException("no " + program + " in " + versions));
            }
        }
        throw new IOException("no " + program);
    }
}
