import java.util.concurrent.CountDownLatch;

/** W6: what a queued task weighs, and whether a deep queue makes tasks slower. */
final class Depth {
    private static final int DEPTH_MAX = 1_000_000;

    private final Pool pool;
    private volatile boolean hasStarted;
    private volatile boolean isOpen;
    private volatile CountDownLatch all;
    private long openNs;
    private long endNs;
    private int ran;
    private int wanted;

    private double fillNs;
    private double drainNs;

    private Depth(Pool pool) {
        this.pool = pool;
    }

    static void report(Pool.Factory factory, String name, int tasks) throws Exception {
        int depth = tasks > 0 ? tasks : DEPTH_MAX;
        long[] full = new long[1];
        long empty = Measure.heapBytes();
        Depth d = new Depth(factory.open(1, depth));
        d.pass(depth, true, () -> full[0] = Measure.heapBytes());
        Measure.report(name, "bytes", (double) (full[0] - empty) / depth, "bytes");
        if (tasks == 0) {
            d.pass(DEPTH_MAX, false, () -> {}); // the compiler's turn
            d.reportDepth(name, 1000, "1k");
            d.reportDepth(name, 10_000, "10k");
            d.reportDepth(name, 100_000, "100k");
            d.reportDepth(name, 1_000_000, "1M");
        }
        d.pool.close();
    }

    private void reportDepth(String name, int depth, String label) throws Exception {
        int passes = Math.max(3, Math.min(101, DEPTH_MAX / depth));
        double[] fills = new double[passes];
        double[] drains = new double[passes];
        for (int i = 0; i < passes; i++) {
            pass(depth, false, () -> {});
            fills[i] = fillNs;
            drains[i] = drainNs;
        }
        Measure.report(name, "fill_" + label, Measure.median(fills), "ns");
        Measure.report(name, "drain_" + label, Measure.median(drains), "ns");
    }

    private void hold() {
        hasStarted = true;
        while (!isOpen) {
            Thread.onSpinWait();
        }
        openNs = Measure.now();
    }

    private void count() {
        if (++ran == wanted) {
            endNs = Measure.now();
            all.countDown();
        }
    }

    /**
     * Fills the queue behind a gate that spins, calls whenFull, opens, and waits for the last. For the weight each
     * task is a lambda of its own, as a task with an argument is in Java.
     */
    private void pass(int depth, boolean perTask, Runnable whenFull) throws Exception {
        hasStarted = false;
        isOpen = false;
        all = new CountDownLatch(1);
        ran = 0;
        wanted = depth;
        pool.submit(this::hold);
        while (!hasStarted) {
            Thread.onSpinWait();
        }
        Runnable shared = this::count;
        long start = Measure.now();
        for (int i = 0; i < depth; i++) {
            pool.submit(perTask ? this::count : shared);
        }
        long full = Measure.now();
        whenFull.run();
        isOpen = true;
        all.await();
        Measure.check(ran, depth);
        fillNs = (double) (full - start) / depth;
        drainNs = (double) (endNs - openNs) / depth;
    }
}
