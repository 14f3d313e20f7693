import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** W7: a million delayed tasks in a ScheduledThreadPoolExecutor, inserted and then cancelled in that order. */
final class Timers {
    private static final int COUNT = 1_000_000;
    private static final int PASSES = 3;
    private static final long DELAY_MS_MIN = 60_000;
    private static final long DELAY_MS_SPREAD = 3_600_000;

    private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);
    private final AtomicLong fired = new AtomicLong();
    private final int[] delaysMs;
    private final ScheduledFuture<?>[] futures;

    private Timers(int count) {
        long state = 88172645463325252L;
        delaysMs = new int[count];
        for (int i = 0; i < count; i++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            delaysMs[i] = (int) (DELAY_MS_MIN + Long.remainderUnsigned(state, DELAY_MS_SPREAD));
        }
        futures = new ScheduledFuture<?>[count];
        executor.setRemoveOnCancelPolicy(true); // else a cancelled task keeps its memory until it is due
        executor.prestartAllCoreThreads();
    }

    static void report(String name, int tasks) {
        int count = tasks > 0 ? tasks : COUNT;
        Timers t = new Timers(count);
        long empty = Measure.heapBytes();
        t.insert();
        long full = Measure.heapBytes();
        t.cancel();
        double[] inserts = new double[PASSES];
        double[] cancels = new double[PASSES];
        for (int i = 0; i < PASSES; i++) {
            inserts[i] = t.insert();
            cancels[i] = t.cancel();
        }
        t.executor.shutdownNow();
        if (t.fired.get() != 0) {
            throw new IllegalStateException(t.fired + " timers fired");
        }
        Measure.report(name, "insert", Measure.median(inserts), "ns");
        Measure.report(name, "cancel", Measure.median(cancels), "ns");
        Measure.report(name, "bytes", (double) (full - empty) / count, "bytes");
    }

    private double insert() {
        long start = Measure.now();
        for (int i = 0; i < futures.length; i++) {
            futures[i] = executor.schedule(fired::incrementAndGet, delaysMs[i], TimeUnit.MILLISECONDS);
        }
        long elapsed = Measure.now() - start;
        Measure.check(executor.getQueue().size(), futures.length);
        return (double) elapsed / futures.length;
    }

    private double cancel() {
        int cancelled = 0;
        long start = Measure.now();
        for (int i = 0; i < futures.length; i++) {
            cancelled += futures[i].cancel(false) ? 1 : 0;
            futures[i] = null;
        }
        long elapsed = Measure.now() - start;
        Measure.check(cancelled, futures.length);
        return (double) elapsed / futures.length;
    }
}
