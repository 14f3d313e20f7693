import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/** W4, W4i, W5: how long one task waits when there is nothing else to do. */
final class Latency {
    private static final int ROUND_TRIPS_MAX = 100_000;
    private static final int ROUND_TRIPS_MIN = 20_000;
    private static final long ROUND_TRIPS_NS = 1_500_000_000;
    private static final int IDLE_SAMPLES = 2000;
    private static final int PACED_SAMPLES = 25_000;
    private static final long IDLENESS_NS = 300_000;
    private static final long SLOT_NS = 20_000;
    private static final long START_SLOT_NS = 50_000; // 20,000 a second
    private static final int START_PACED_SAMPLES = 10_000;
    private static final int QUEUE_LIMIT = 1024;

    private long ran;

    private Latency() {}

    /** One task on its way. The times are relative to EPOCH, so that 0 means not yet. */
    private static final class Sample implements Runnable {
        static final long EPOCH = Measure.now() - 1;
        static final VarHandle START;

        static {
            try {
                START = MethodHandles.lookup().findVarHandle(Sample.class, "startNs", long.class);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }

        long submitNs;
        long acceptedNs;
        long startNs;

        @Override
        public void run() {
            START.setRelease(this, Measure.now() - EPOCH);
        }

        void submitTo(Pool pool) {
            submitNs = Measure.now() - EPOCH;
            pool.submit(this);
            acceptedNs = Measure.now() - EPOCH;
        }

        void await() {
            while ((long) START.getAcquire(this) == 0) {
                Thread.onSpinWait();
                if (Measure.now() - EPOCH > submitNs + 1_000_000_000L) {
                    throw new IllegalStateException("a task did not start within a second");
                }
            }
        }
    }

    static void reportRoundTrips(Pool.Factory factory, String name, int tasks) throws Exception {
        Latency latency = new Latency();
        Pool pool = factory.open(2, QUEUE_LIMIT);
        int limit = tasks > 0 ? tasks : ROUND_TRIPS_MAX;
        int warmUp = Math.max(limit / 5, 20_000);
        latency.roundTrips(pool, new long[warmUp], 0, Long.MAX_VALUE);
        long[] trips = new long[limit];
        int count = latency.roundTrips(pool, trips, ROUND_TRIPS_MIN, tasks > 0 ? Long.MAX_VALUE : ROUND_TRIPS_NS);
        pool.close();
        Measure.check(latency.ran, count + warmUp);
        long[] taken = java.util.Arrays.copyOf(trips, count);
        Measure.report(name, "p50", Measure.percentile(taken, 50), "ns");
        Measure.report(name, "p99", Measure.percentile(taken, 99), "ns");
    }

    /** Fills the array, or as much of it as the time allows; returns how much. */
    private int roundTrips(Pool pool, long[] trips, int atLeast, long budgetNs) throws Exception {
        Runnable task = () -> ran++;
        long begin = Measure.now();
        for (int i = 0; i < trips.length; i++) {
            long start = Measure.now();
            if (i >= atLeast && start - begin > budgetNs) {
                return i;
            }
            pool.run(task);
            trips[i] = Measure.now() - start;
        }
        return trips.length;
    }

    static void reportAfterIdleness(Pool.Factory factory, String name, int tasks) throws Exception {
        Pool pool = factory.open(2, QUEUE_LIMIT);
        paced(pool, samples(10_000), SLOT_NS); // the compiler's turn
        afterIdleness(pool, samples(200));
        Sample[] samples = samples(tasks > 0 ? tasks : IDLE_SAMPLES);
        afterIdleness(pool, samples);
        double idle = idleCores();
        pool.close();
        Measure.report(name, "start_p50", Measure.percentile(waits(samples), 50), "ns");
        Measure.report(name, "start_p99", Measure.percentile(waits(samples), 99), "ns");
        Measure.report(name, "submit_p50", Measure.percentile(costs(samples), 50), "ns");
        Measure.report(name, "idle_cpu", idle, "cores");
    }

    static void reportPaced(Pool.Factory factory, String name, int tasks) throws Exception {
        Pool pool = factory.open(2, QUEUE_LIMIT);
        paced(pool, samples(20_000), SLOT_NS); // the compiler's turn
        Sample[] samples = samples(tasks > 0 ? tasks : PACED_SAMPLES);
        double cores = paced(pool, samples, SLOT_NS);
        pool.close();
        Measure.report(name, "p50", Measure.percentile(waits(samples), 50), "ns");
        Measure.report(name, "p99", Measure.percentile(waits(samples), 99), "ns");
        Measure.report(name, "cpu", cores, "cores");
    }

    /** E9: tasks that can be asked about, see bench/common/start_latency.h. */
    static void reportStarts(Pool registry, String name, int tasks) throws Exception {
        paced(registry, samples(10_000), SLOT_NS); // the compiler's turn
        afterIdleness(registry, samples(200));
        Sample[] idle = samples(tasks > 0 ? tasks : IDLE_SAMPLES);
        afterIdleness(registry, idle);
        paced(registry, samples(1000), START_SLOT_NS);
        Sample[] paced = samples(tasks > 0 ? tasks : START_PACED_SAMPLES);
        paced(registry, paced, START_SLOT_NS);
        registry.close();
        Measure.report(name, "start_p50", Measure.percentile(waits(idle), 50), "ns");
        Measure.report(name, "start_p99", Measure.percentile(waits(idle), 99), "ns");
        Measure.report(name, "paced_p50", Measure.percentile(waits(paced), 50), "ns");
        Measure.report(name, "paced_p99", Measure.percentile(waits(paced), 99), "ns");
    }

    private static void afterIdleness(Pool pool, Sample[] samples) {
        for (Sample sample : samples) {
            Measure.spinUntil(Measure.now() + IDLENESS_NS);
            sample.submitTo(pool);
            sample.await();
        }
    }

    /** Returns the cores that it kept busy. */
    private static double paced(Pool pool, Sample[] samples, long slotNs) {
        long start = Measure.now();
        long startCpu = Measure.cpu();
        for (int i = 0; i < samples.length; i++) {
            Measure.spinUntil(start + i * slotNs);
            samples[i].submitTo(pool);
        }
        double cores = (double) (Measure.cpu() - startCpu) / (Measure.now() - start);
        for (Sample sample : samples) {
            sample.await();
        }
        return cores;
    }

    private static double idleCores() throws InterruptedException {
        Thread.sleep(50);
        long start = Measure.now();
        long startCpu = Measure.cpu();
        Thread.sleep(1000);
        return (double) (Measure.cpu() - startCpu) / (Measure.now() - start);
    }

    private static Sample[] samples(int count) {
        Sample[] samples = new Sample[count];
        for (int i = 0; i < count; i++) {
            samples[i] = new Sample();
        }
        return samples;
    }

    private static long[] waits(Sample[] samples) {
        return java.util.Arrays.stream(samples).mapToLong(s -> s.startNs - s.submitNs).toArray();
    }

    private static long[] costs(Sample[] samples) {
        return java.util.Arrays.stream(samples).mapToLong(s -> s.acceptedNs - s.submitNs).toArray();
    }
}
