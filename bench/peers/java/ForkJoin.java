import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;

/** ForkJoinPool in async mode, which is first in, first out. Its queues have no bound. */
final class ForkJoin implements Pool {
    private final ForkJoinPool pool;

    ForkJoin(int workers, int queueLimit) {
        pool = new ForkJoinPool(workers, ForkJoinPool.defaultForkJoinWorkerThreadFactory, null, true);
    }

    @Override
    public void submit(Runnable task) {
        pool.execute(task);
    }

    @Override
    public void run(Runnable task) throws Exception {
        pool.submit(task).join();
    }

    @Override
    public void close() throws InterruptedException {
        pool.shutdown();
        if (!pool.awaitTermination(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the pool does not end");
        }
    }
}
