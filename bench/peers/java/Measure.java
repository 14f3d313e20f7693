import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.Arrays;
import java.util.Locale;

/** Clocks, memory, percentiles and output. */
final class Measure {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Measure() {}

    static long now() {
        return System.nanoTime();
    }

    /** CPU time of the whole process, collector and compiler included. */
    static long cpu() {
        return SYSTEM.getProcessCpuTime();
    }

    static void spinUntil(long untilNs) {
        while (now() - untilNs < 0) {
            Thread.onSpinWait();
        }
    }

    /** What lives on the heap, as the collector counted it: without what threads have put by for later. */
    static long heapBytes() {
        System.gc();
        long used = 0;
        for (MemoryPoolMXBean area : ManagementFactory.getMemoryPoolMXBeans()) {
            if (area.getType() == MemoryType.HEAP && area.getCollectionUsage() != null) {
                used += area.getCollectionUsage().getUsed();
            }
        }
        return used;
    }

    /** Sorts the values. */
    static double percentile(long[] values, double percent) {
        Arrays.sort(values);
        return values[Math.min((int) (percent / 100 * values.length), values.length - 1)];
    }

    static double median(double[] values) {
        Arrays.sort(values);
        return values[values.length / 2];
    }

    static void report(String workload, String metric, double value, String unit) {
        System.out.printf(Locale.ROOT, "%s\t%s\t%.6f\t%s%n", workload, metric, value, unit);
    }

    static void check(long ran, long wanted) {
        if (ran != wanted || wanted < 1) {
            throw new IllegalStateException(ran + " tasks ran, " + wanted + " were submitted");
        }
    }
}
