import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/** E1 to E9: tasks that can be asked about. See bench/engine.c, which does the same. */
final class Tracked {
    private static final int WORKERS = 2;
    private static final int LIMIT = 1024;
    private static final int RETRYING_LIMIT = 65_536; // a thousand would all wait for their retry most of the time
    private static final int RETAINED = 100_000;
    private static final int WEIGHED = 1_000_000;
    private static final int RECENT = 8192;
    private static final int READERS = 2;
    private static final long SNAPSHOTS_PER_S = 100_000;
    private static final int PAIRS = 31;
    private static final int PART = 8;
    private static final long DUE_MS_MIN = 2000;
    private static final long DUE_MS_SPREAD = 2000;
    private static final long SEED = 88172645463325252L;

    /** What a workload does with the tasks of the tally, behind the face of a pool that runs each submitted one once. */
    private record Face(Registry registry, Consumer<Runnable> submits) implements Pool {
        @Override
        public void submit(Runnable task) {
            submits.accept(task);
        }

        @Override
        public void run(Runnable task) throws Exception {
            registry.run(task);
        }

        @Override
        public void close() throws InterruptedException {
            registry.close();
        }
    }

    private Tracked() {}

    static void run(String name, int tasks) throws Exception {
        switch (name) {
            case "E1" -> report(name, "task", open(LIMIT, RETAINED), 1, tasks);
            case "E1x4" -> report(name, "task", open(LIMIT, RETAINED), 4, tasks);
            case "E2" -> report(name, "task", keyed(open(LIMIT, RETAINED)), 1, tasks);
            case "E3" -> report(name, "task", retried(open(RETRYING_LIMIT, RETAINED)), 1, tasks);
            case "E4" -> reportWatched(name, tasks);
            case "E5" -> reportWeights(name, tasks > 0 ? tasks : WEIGHED);
            case "E6" -> reportDelayed(name, tasks > 0 ? tasks : WEIGHED);
            case "E7" -> reportRetained(name, tasks);
            case "E8" -> report(name, "task", loaded(open(LIMIT, RETAINED)), 1, tasks);
            case "E9" -> Latency.reportStarts(open(LIMIT, RETAINED), name, tasks);
            default -> throw new IllegalArgumentException("no workload " + name);
        }
    }

    private static Registry open(int limit, int retained) {
        return new Registry(WORKERS, limit, retained);
    }

    private static void report(String name, String metric, Pool pool, int producers, int tasks) throws Exception {
        Throughput t = new Throughput(pool, producers);
        Measure.report(name, metric, t.measure(t::count, tasks), "ns");
    }

    private static Pool keyed(Registry registry) {
        long[] next = new long[1];
        return new Face(registry, task -> {
            String key = Long.toString(++next[0]);
            if (registry.submit(self -> task.run(), key).id != next[0]) {
                throw new IllegalStateException("the key " + key + " is taken");
            }
        });
    }

    private static Pool loaded(Registry registry) {
        byte[] payload = new byte[32];
        payload[0] = 'a';
        return new Face(registry, task -> {
            byte[] copy = payload.clone(); // the task's own
            registry.submit(self -> {
                if (copy[0] != 'a') {
                    throw new IllegalStateException("that is another payload");
                }
                task.run();
            }, null);
        });
    }

    private static Pool retried(Registry registry) {
        return new Face(registry, task -> registry.submit(self -> {
            if (self.id % 3 == 0 && self.attempts() == 1) {
                throw new NotYet();
            }
            task.run();
        }, null));
    }

    /** Without a stack trace, which is what makes exceptions slow. */
    private static final class NotYet extends Exception {
        private static final long serialVersionUID = 1;

        NotYet() {
            super("not yet", null, false, false);
        }
    }

    private static long nextRandom(long state) {
        state ^= state << 13;
        state ^= state >>> 7;
        return state ^ state << 17;
    }

    private static void reportWatched(String name, int tasks) throws Exception {
        Registry registry = open(LIMIT, RETAINED);
        Throughput t = new Throughput(registry, 1);
        long count = t.findCount(t::count);
        count = (tasks > 0 ? tasks : count) / PART;
        double[] watched = new double[PAIRS];
        double[] rates = new double[PAIRS];
        Watching all = new Watching();
        for (int i = 0; i < PAIRS; i++) {
            double alone = 0;
            for (int turn = 0; turn < 2; turn++) {
                if (turn == i % 2) {
                    alone = (double) t.time(t::count, count) / count;
                } else {
                    watched[i] = (double) timeWatched(registry, t, count, all) / count;
                }
            }
            rates[i] = alone / watched[i];
        }
        t.close();
        all.check();
        Measure.report(name, "task", Measure.median(watched), "ns");
        Measure.report(name, "rate_of_E1", Measure.median(rates), "x");
    }

    /** How many snapshots were taken in all passes, and how long these took. */
    private static final class Watching {
        long taken;
        long timeNs;

        void check() {
            double rate = taken * 1e9 / timeNs;
            if (rate < 0.9 * SNAPSHOTS_PER_S) {
                throw new IllegalStateException("only " + rate + " snapshots were taken a second");
            }
        }
    }

    private static long timeWatched(Registry registry, Throughput t, long count, Watching all) throws Exception {
        CountDownLatch over = new CountDownLatch(1);
        AtomicLong taken = new AtomicLong();
        Thread[] readers = new Thread[READERS];
        long start = Measure.now();
        for (int i = 0; i < READERS; i++) {
            long seed = SEED + i;
            readers[i] = new Thread(() -> taken.addAndGet(watch(registry, seed, over)));
            readers[i].start();
        }
        long elapsedNs = t.time(t::count, count);
        over.countDown();
        for (Thread reader : readers) {
            reader.join();
        }
        all.taken += taken.get();
        all.timeNs += Measure.now() - start;
        return elapsedNs;
    }

    /** Sleeps between bursts, as spinning would take a core from those that it watches. */
    private static long watch(Registry registry, long state, CountDownLatch over) {
        long start = Measure.now();
        long taken = 0;
        while (over.getCount() > 0) {
            long due = (Measure.now() - start) * (SNAPSHOTS_PER_S / READERS) / 1_000_000_000L;
            for (; taken < due; taken++) {
                state = nextRandom(state);
                long id = registry.lastId() - 8 - Long.remainderUnsigned(state, RECENT);
                Registry.Snapshot snapshot = registry.get(id);
                if (snapshot == null || snapshot.id() != id) {
                    System.err.println("task " + id + " is not there");
                    System.exit(1);
                }
            }
            LockSupport.parkNanos(1_000_000);
        }
        return taken;
    }

    private static void reportWeights(String name, int count) throws Exception {
        Measure.report(name, "finished", weighFinished(count), "bytes");
        Measure.report(name, "waiting", weighWaiting(count), "bytes");
    }

    private static double weighFinished(int count) throws Exception {
        long empty = Measure.heapBytes();
        Registry registry = open(LIMIT, count);
        Throughput t = new Throughput(registry, 1);
        t.time(t::count, count);
        t.close();
        double bytes = (double) (Measure.heapBytes() - empty) / count;
        if (registry.get(1) == null) {
            throw new IllegalStateException("the first task has left");
        }
        return bytes;
    }

    private static double weighWaiting(int count) throws Exception {
        long empty = Measure.heapBytes();
        Registry registry = open(count, 1);
        CountDownLatch gate = new CountDownLatch(1);
        AtomicLong ran = new AtomicLong();
        for (int i = 0; i < WORKERS; i++) {
            registry.submit(self -> gate.await(), null);
        }
        for (int i = 0; i < count; i++) {
            registry.submit(self -> ran.incrementAndGet(), null);
        }
        double bytes = (double) (Measure.heapBytes() - empty) / count;
        gate.countDown();
        registry.close();
        Measure.check(ran.get(), count);
        return bytes;
    }

    private static void reportDelayed(String name, int count) throws Exception {
        Registry registry = open(count, RETAINED);
        AtomicLong ran = new AtomicLong();
        long state = SEED;
        long cpu = Measure.cpu();
        long start = Measure.now();
        for (int i = 0; i < count; i++) {
            state = nextRandom(state);
            long dueMs = DUE_MS_MIN + Long.remainderUnsigned(state, DUE_MS_SPREAD);
            long elapsedMs = TimeUnit.NANOSECONDS.toMillis(Measure.now() - start);
            registry.submitDelayed(self -> ran.incrementAndGet(), Math.max(dueMs - elapsedMs, 1));
        }
        long inserted = Measure.now();
        registry.close();
        cpu = Measure.cpu() - cpu;
        Measure.check(ran.get(), count);
        Measure.report(name, "cpu", (double) cpu / count, "ns");
        Measure.report(name, "insert", (double) (inserted - start) / count, "ns");
    }

    private static void reportRetained(String name, int tasks) throws Exception {
        Throughput warmUp = new Throughput(open(LIMIT, RETAINED), 1);
        warmUp.measure(warmUp::count, tasks); // the compiler's turn
        int retained = 1000;
        for (String label : new String[] {"1k", "10k", "100k", "1M"}) {
            Registry registry = open(LIMIT, retained);
            Throughput t = new Throughput(registry, 1);
            t.time(t::count, retained);
            Measure.report(name, label, t.measure(t::count, tasks), "ns");
            retained *= 10;
        }
    }
}
