import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;

/** W1, W1x, W2, W3, and E1 to E4, E7: how long a task takes when there are always more. */
final class Throughput {
    /** Longer than elsewhere: the compiler has to see the loops first. */
    private static final long WARM_UP_NS = 250_000_000;

    private static final int WARM_UP_RUNS = 4;
    private static final long MEASURE_NS = 500_000_000;
    private static final int QUEUE_LIMIT = 1024;

    private final Pool pool;
    private final int producers;
    private final AtomicLong done = new AtomicLong();
    private volatile CountDownLatch all;
    private long wanted;
    private long endNs;
    private long iterations;

    Throughput(Pool pool, int producers) {
        this.pool = pool;
        this.producers = producers;
    }

    static void report(Pool.Factory factory, String name, int workers, int producers, int tasks) throws Exception {
        Throughput t = new Throughput(factory.open(workers, QUEUE_LIMIT), producers);
        Measure.report(name, "task", t.measure(t::count, tasks), "ns");
    }

    static void reportMicroseconds(Pool.Factory factory, String name, int tasks) throws Exception {
        Throughput t = new Throughput(factory.open(2, QUEUE_LIMIT), 1);
        t.iterations = Burn.calibrate();
        double before = Burn.cost(t.iterations);
        double taskNs = t.measure(t::burn, tasks);
        double after = Burn.cost(t.iterations);
        double ideal = (before + after) / 2 / 2;
        Measure.report(name, "task", taskNs, "ns");
        Measure.report(name, "ideal", ideal, "ns");
        Measure.report(name, "over_ideal", taskNs / ideal, "x");
    }

    void count() {
        if (done.incrementAndGet() == wanted) {
            endNs = Measure.now();
            all.countDown();
        }
    }

    private void burn() {
        if (Burn.burn(iterations) == 0) {
            throw new IllegalStateException("cannot be; it only keeps the loop alive");
        }
        count();
    }

    /** Nanoseconds per task; closes the pool. */
    double measure(Runnable task, int tasks) throws Exception {
        long count = tasks > 0 ? tasks : findCount(task);
        if (tasks > 0) {
            time(task, count);
        }
        long elapsedNs = time(task, count);
        close();
        return (double) elapsedNs / wanted;
    }

    /** Only after the pool has ended can no task come any more that should not have run. */
    void close() throws InterruptedException {
        pool.close();
        Measure.check(done.get(), wanted);
    }

    /** Warms up with ever longer runs and returns how many tasks take about half a second. */
    long findCount(Runnable task) throws Exception {
        for (int i = 0; i < WARM_UP_RUNS; i++) {
            time(task, 50_000);
        }
        for (long count = 50_000; ; count *= 2) {
            long elapsedNs = time(task, count);
            if (elapsedNs >= WARM_UP_NS) {
                return (long) ((double) count * MEASURE_NS / elapsedNs);
            }
        }
    }

    /** Nanoseconds from the first submit to the end of the last task. */
    long time(Runnable task, long count) throws Exception {
        long share = count / producers;
        long[] starts = new long[producers];
        Thread[] threads = new Thread[producers];
        CyclicBarrier barrier = new CyclicBarrier(producers);
        all = new CountDownLatch(1);
        wanted = share * producers;
        done.set(0);
        for (int i = 0; i < producers; i++) {
            int self = i;
            threads[i] = new Thread(() -> starts[self] = produce(barrier, task, share));
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        all.await();
        long first = starts[0];
        for (long start : starts) {
            first = Math.min(first, start);
        }
        return endNs - first;
    }

    private long produce(CyclicBarrier barrier, Runnable task, long share) {
        try {
            barrier.await();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        long start = Measure.now();
        for (long i = 0; i < share; i++) {
            pool.submit(task);
        }
        return start;
    }
}
