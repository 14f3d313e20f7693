import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Tasks that can be asked about, as one writes it in Java: a ThreadPoolExecutor, a ConcurrentHashMap of the tasks, a
 * CompletableFuture in each. What was finished stays until so many others were finished after it.
 */
final class Registry implements Pool {
    private static final long RETRY_AFTER_MS = 1;

    enum State { SCHEDULED, ENQUEUED, STARTED, FINISHED }

    record Snapshot(long id, State state, int attempts, Exception error, Long value) {}

    /** What a task does; an exception means: not yet, try again. */
    interface Work {
        void run(Task task) throws Exception;
    }

    final class Task implements Runnable {
        final long id;
        private final String key;
        private final Work work;
        private final CompletableFuture<Long> future = new CompletableFuture<>();
        private State state;
        private int attempts;
        private Exception error;

        private Task(long id, String key, Work work, State state) {
            this.id = id;
            this.key = key;
            this.work = work;
            this.state = state;
        }

        int attempts() {
            return attempts; // only the attempt itself asks
        }

        @Override
        public void run() {
            start();
            try {
                work.run(this);
            } catch (Exception e) {
                retry(e);
                return;
            }
            finish();
        }

        private synchronized void start() {
            state = State.STARTED;
            attempts++;
        }

        private void retry(Exception e) {
            synchronized (this) {
                state = State.SCHEDULED;
                error = e;
            }
            delay(this, RETRY_AFTER_MS);
        }

        private void finish() {
            synchronized (this) {
                state = State.FINISHED;
            }
            future.complete(id);
            if (key != null) {
                keys.remove(key);
            }
            evict(id);
        }

        private synchronized void enqueue() {
            state = State.ENQUEUED;
        }

        private synchronized Snapshot snapshot() {
            return new Snapshot(id, state, attempts, error, future.getNow(null));
        }
    }

    private final ConcurrentHashMap<Long, Task> tasks = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<String, Task> keys = new ConcurrentHashMap<>();
    private final AtomicLong lastId = new AtomicLong();
    private final AtomicLong finished = new AtomicLong();
    private final AtomicLongArray retained; // ids of the finished, the oldest overwritten by the next
    private final ThreadPoolExecutor executor;
    private final ScheduledThreadPoolExecutor scheduler = new ScheduledThreadPoolExecutor(1);

    Registry(int workers, int limit, int retained) {
        this.retained = new AtomicLongArray(retained);
        executor = new ThreadPoolExecutor(workers, workers, 0, TimeUnit.SECONDS,
                new ArrayBlockingQueue<>(limit), Registry::putWaiting);
        executor.prestartAllCoreThreads();
    }

    private static void putWaiting(Runnable task, ThreadPoolExecutor executor) {
        try {
            executor.getQueue().put(task);
        } catch (InterruptedException e) {
            throw new RejectedExecutionException(e);
        }
    }

    /** Waits for room. The key may be null; if it has an unfinished task, that one is returned. */
    Task submit(Work work, String key) {
        Task task = new Task(lastId.incrementAndGet(), key, work, State.ENQUEUED);
        if (key != null) {
            Task other = keys.putIfAbsent(key, task);
            if (other != null) {
                return other;
            }
        }
        tasks.put(task.id, task);
        executor.execute(task);
        return task;
    }

    Task submitDelayed(Work work, long delayMs) {
        Task task = new Task(lastId.incrementAndGet(), null, work, State.SCHEDULED);
        tasks.put(task.id, task);
        delay(task, delayMs);
        return task;
    }

    private void delay(Task task, long delayMs) {
        scheduler.schedule(() -> {
            task.enqueue();
            executor.execute(task);
        }, delayMs, TimeUnit.MILLISECONDS);
    }

    /** Lets the oldest leave, now that this one was finished. */
    private void evict(long id) {
        int place = (int) (finished.incrementAndGet() % retained.length());
        long old = retained.getAndSet(place, id);
        if (old != 0) {
            tasks.remove(old);
        }
    }

    /** Null if there is none. */
    Snapshot get(long id) {
        Task task = tasks.get(id);
        return task == null ? null : task.snapshot();
    }

    long lastId() {
        return lastId.get();
    }

    @Override
    public void submit(Runnable task) {
        submit(self -> task.run(), null);
    }

    @Override
    public void run(Runnable task) throws Exception {
        submit(self -> task.run(), null).future.get();
    }

    /** Waits for all tasks and checks that each was finished. */
    @Override
    public void close() throws InterruptedException {
        for (int i = 0; i < 60_000 && finished.get() < lastId.get(); i++) {
            Thread.sleep(1);
        }
        scheduler.shutdown();
        executor.shutdown();
        Measure.check(finished.get(), lastId.get());
    }
}
