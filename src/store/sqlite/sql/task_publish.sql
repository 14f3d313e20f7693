-- What a running attempt says about itself.
UPDATE legwork_task SET
    progress_done = ?2, progress_total = ?3, progress_text = ?4, partial = ?5, checkpoint = ?6
WHERE id = ?1;
