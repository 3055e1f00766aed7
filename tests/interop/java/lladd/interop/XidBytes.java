// SPDX-License-Identifier: BSD-2-Clause
package lladd.interop;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import javax.transaction.xa.Xid;

/** An XID as bytes: the form that is stored, sent, compared and printed. */
record XidBytes(int format, byte[] global, byte[] branch) implements Xid {
    static XidBytes of(Xid xid) {
        return new XidBytes(xid.getFormatId(), xid.getGlobalTransactionId(),
                xid.getBranchQualifier());
    }

    @Override
    public int getFormatId() {
        return format;
    }

    @Override
    public byte[] getGlobalTransactionId() {
        return global.clone();
    }

    @Override
    public byte[] getBranchQualifier() {
        return branch.clone();
    }

    @Override
    public boolean equals(Object o) {
        return o instanceof XidBytes x && format == x.format && Arrays.equals(global, x.global)
                && Arrays.equals(branch, x.branch);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(global) * 31 + Arrays.hashCode(branch);
    }

    /** Returns format.global.branch, in hexadecimal: for parse, and for readers. */
    @Override
    public String toString() {
        HexFormat hex = HexFormat.of();
        return Integer.toHexString(format) + "." + hex.formatHex(global) + "."
                + hex.formatHex(branch);
    }

    static XidBytes parse(String text) {
        String[] part = text.split("\\.", -1);
        HexFormat hex = HexFormat.of();
        return new XidBytes(Integer.parseUnsignedInt(part[0], 16), hex.parseHex(part[1]),
                hex.parseHex(part[2]));
    }

    void write(DataOutputStream out) throws IOException {
        ByteBuffer b = ByteBuffer.allocate(6 + global.length + branch.length);
        b.putInt(format).put((byte) global.length).put((byte) branch.length);
        b.put(global).put(branch);
        out.write(b.array());
    }

    static XidBytes read(DataInputStream in) throws IOException {
        int format = in.readInt();
        byte[] global = new byte[in.readUnsignedByte()];
        byte[] branch = new byte[in.readUnsignedByte()];
        in.readFully(global);
        in.readFully(branch);
        return new XidBytes(format, global, branch);
    }
}
