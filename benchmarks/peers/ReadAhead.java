/* SPDX-License-Identifier: Apache-2.0 */
/* ReadAhead.java - Spark's ReadAheadInputStream in front of an LZ4Block file, as its sorter reads a
 * spill: for each word on standard input the file is read once, by "ahead" or "plain", and the sum
 * of its int32 (as unsigned) is printed.  Needs Spark's jars on the class path. */
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;

import net.jpountz.lz4.LZ4BlockInputStream;
import org.apache.spark.io.NioBufferedFileInputStream;
import org.apache.spark.io.ReadAheadInputStream;

public final class ReadAhead {
    /* What spark.unsafe.sorter.spill.reader.buffer.size is by default. */
    private static final int BUFFER_BYTES = 1 << 20;

    public static void main(String[] args) throws IOException {
        File file = new File(args[0]);
        long values = Long.parseLong(args[1]);
        BufferedReader words = new BufferedReader(new InputStreamReader(System.in));

        for (String word; (word = words.readLine()) != null; ) {
            InputStream in = new LZ4BlockInputStream(new NioBufferedFileInputStream(file, BUFFER_BYTES));

            if (word.equals("ahead"))
                in = new ReadAheadInputStream(in, BUFFER_BYTES);
            System.out.println(Long.toUnsignedString(sum(in, values)));
        }
    }

    private static long sum(InputStream in, long values) throws IOException {
        long sum = 0;

        try (DataInputStream data = new DataInputStream(in)) {
            for (long i = 0; i < values; i++)
                sum += data.readInt() & 0xffffffffL;
            if (data.read() != -1)
                throw new IOException("there is more in the file than that");
        }
        return sum;
    }
}
