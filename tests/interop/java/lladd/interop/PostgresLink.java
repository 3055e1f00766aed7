// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import javax.sql.XAConnection;
import javax.transaction.xa.XAResource;
import org.postgresql.xa.PGXADataSource;

/** A connection to PostgreSQL. The XAResource is that of PostgreSQL's driver. */
final class PostgresLink implements Link {
    private static final String LOCK_NOT_AVAILABLE = "55P03";

    private final XAConnection connection;
    private final Connection sql;

    PostgresLink(int port) throws SQLException {
        PGXADataSource source = new PGXADataSource();
        source.setServerNames(new String[] {"127.0.0.1"});
        source.setPortNumbers(new int[] {port});
        source.setDatabaseName("postgres");
        source.setUser(Postgres.USER);
        source.setConnectTimeout(600);
        source.setSocketTimeout(600);
        connection = source.getXAConnection();
        sql = connection.getConnection();
    }

    Connection sql() {
        return sql;
    }

    @Override
    public XAResource xa() {
        try {
            return connection.getXAResource();
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void add(int account, long delta) throws SQLException {
        try (PreparedStatement s =
                sql.prepareStatement("UPDATE account SET balance = balance + ? WHERE id = ?")) {
            s.setLong(1, delta);
            s.setInt(2, account);
            if (s.executeUpdate() != 1) throw new SQLException("no account " + account);
        }
    }

    @Override
    public long read(int account) throws SQLException {
        return query("SELECT balance FROM account WHERE id = ?", account);
    }

    @Override
    public boolean locked(int account) throws SQLException {
        try {
            query("SELECT balance FROM account WHERE id = ? FOR UPDATE NOWAIT", account);
            return false;
        } catch (SQLException e) {
            if (LOCK_NOT_AVAILABLE.equals(e.getSQLState())) return true;
            throw e;
        }
    }

    private long query(String text, int account) throws SQLException {
        try (PreparedStatement s = sql.prepareStatement(text)) {
            s.setInt(1, account);
            try (ResultSet r = s.executeQuery()) {
                if (!r.next()) throw new SQLException("no account " + account);
                return r.getLong(1);
            }
        }
    }

    @Override
    public void close() {
        try {
            connection.close();
        } catch (SQLException e) {
            // The server is gone: there is nothing to close.
        }
    }
}
