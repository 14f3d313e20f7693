/**
 * Peers: java.util.concurrent's ThreadPoolExecutor and ForkJoinPool, for the workloads of bench/common; and tasks that
 * can be asked about, for those of bench/engine.c.
 */
public final class Bench {
    private Bench() {}

    public static void main(String[] args) throws Exception {
        if (args.length < 2 || args.length > 3) {
            throw new IllegalArgumentException("usage: Bench executor|forkjoin|registry WORKLOAD [tasks]");
        }
        int tasks = args.length == 3 ? Integer.parseInt(args[2]) : 0;
        switch (args[0]) {
            case "executor" -> run(ExecutorPool::new, args[1], tasks);
            case "forkjoin" -> run(ForkJoin::new, args[1], tasks);
            case "registry" -> Tracked.run(args[1], tasks);
            default -> throw new IllegalArgumentException("no system " + args[0]);
        }
    }

    /** With 0 tasks a workload chooses how many take about half a second. */
    private static void run(Pool.Factory factory, String name, int tasks) throws Exception {
        switch (name) {
            case "W1" -> Throughput.report(factory, name, 2, 1, tasks);
            case "W1x" -> Throughput.report(factory, name, 8, 1, tasks);
            case "W2" -> Throughput.report(factory, name, 2, 4, tasks);
            case "W3" -> Throughput.reportMicroseconds(factory, name, tasks);
            case "W4" -> Latency.reportRoundTrips(factory, name, tasks);
            case "W4i" -> Latency.reportAfterIdleness(factory, name, tasks);
            case "W5" -> Latency.reportPaced(factory, name, tasks);
            case "W6" -> Depth.report(factory, name, tasks);
            case "W7" -> Timers.report(name, tasks);
            default -> throw new IllegalArgumentException("no workload " + name);
        }
    }
}
