import java.util.Arrays;

/** Work of a known cost: each step needs the result of the one before; neither memory nor a clock. */
final class Burn {
    private static final int ROUNDS = 9;
    private static final int CALLS = 4000;
    private static long sink;

    private Burn() {}

    static long burn(long iterations) {
        long x = iterations | 1;
        for (long i = 0; i < iterations; i++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
        }
        return x;
    }

    /** Iterations that take 1 µs here and now, by the fastest round. */
    static long calibrate() {
        long probe = 1000;
        rounds(probe);
        rounds(probe);
        return (long) (probe * 1000 / rounds(probe)[0] + 0.5);
    }

    /** Nanoseconds that one call costs. */
    static double cost(long iterations) {
        return rounds(iterations)[ROUNDS / 2];
    }

    private static double[] rounds(long iterations) {
        double[] costs = new double[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            costs[i] = round(iterations);
        }
        Arrays.sort(costs);
        return costs;
    }

    private static double round(long iterations) {
        long start = Measure.now();
        for (int i = 0; i < CALLS; i++) {
            sink += burn(iterations);
        }
        return (double) (Measure.now() - start) / CALLS;
    }
}
