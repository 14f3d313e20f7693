/** What a workload asks of a pool. Only one implementation is loaded per process, so that calls are inlined. */
interface Pool {
    /** Hands over a task; waits for room where the pool is bounded. */
    void submit(Runnable task);

    /** Hands over a task and waits until it is done. */
    void run(Runnable task) throws Exception;

    /** Waits for what is queued. */
    void close() throws InterruptedException;

    interface Factory {
        Pool open(int workers, int queueLimit);
    }
}
